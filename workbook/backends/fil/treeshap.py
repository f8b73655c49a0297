"""SHAP values of a tree model: how much each feature adds to a prediction.

One method serves every model that Treelite can read: XGBoost, LightGBM and scikit-learn. It is
path-dependent TreeSHAP (Lundberg, Erion, Lee: Consistent Individualized Feature Attribution for
Tree Ensembles, 2018).

How it is computed. The path to a leaf with value v has conditions on d different features. For
feature i on that path let o_i be 1 if the row meets all conditions on i, else 0. Let z_i be the
share of the training rows that meet them. The Shapley value of i for this leaf is

    v (o_i - z_i) * sum over S of |S|! (d - 1 - |S|)! / d! * prod_{j in S} o_j prod_{j not in S} z_j

over the subsets S of the other features on the path. As k! (d-1-k)! / d! is the integral of
t^k (1-t)^(d-1-k) from 0 to 1, the sum is the integral of prod_{j != i} (t o_j + (1-t) z_j). That
is a polynomial of degree d-1 in t, so Gauss-Legendre with ceil(d/2) points gives it exactly.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Array = npt.NDArray[Any]

#: The largest depth of a tree. Deeper trees are refused, as in the real backend.
DEEPEST = 32
#: How many rows times path elements are computed at once. This limits the memory to about 100 MB.
_CHUNK = 2_000_000

# Treelite's codes (treelite/enum: TreeNodeType and Operator).
_CATEGORICAL = 2
_COMPARE: dict[int, Any] = {
    1: np.equal,
    2: np.less,
    3: np.less_equal,
    4: np.greater,
    5: np.greater_equal,
}


class NotExplainable(Exception):
    """SHAP values cannot be computed for this model; the message says why."""


@dataclasses.dataclass(frozen=True)
class _Categories:
    """A categorical split: the values that go to the matching child, and which child that is."""

    node: int
    feature: int
    values: Array
    right: bool


class TreeShap:
    """Computes SHAP values of the raw score (margin) of a Treelite model.

    Args:
        model: a `treelite.Model` with one target.

    Raises:
        NotExplainable: a tree is too deep, or the model does not say how many training rows
            reached each node.
    """

    def __init__(self, model: Any) -> None:
        header = model.get_header_accessor()
        self.features = int(model.num_feature)
        self.classes = int(header.get_field("num_class")[0])
        class_of_tree = header.get_field("class_id")
        in_leaf = (
            int(header.get_field("leaf_vector_shape")[1]) > 1
        )  # a leaf holds a value per class
        scale = 1.0
        if header.get_field("average_tree_output")[0]:
            scale = 1.0 if in_leaf or self.classes == 1 else float(self.classes)
            scale /= model.num_tree

        reader = _Reader()
        bias = np.zeros(self.classes)
        leaf_values: list[Floats] = []
        for index in range(model.num_tree):
            one_class = None if in_leaf else max(int(class_of_tree[index]), 0)
            for reach, value in reader.read(model.get_tree_accessor(index)):
                row = np.zeros(self.classes)
                if one_class is None:
                    row[:] = value
                else:
                    row[one_class] = value[0]
                row *= scale
                bias += reach * row
                leaf_values.append(row)
        self.bias = bias + np.asarray(header.get_field("base_scores"), dtype=np.float64)
        reader.finish()
        self._reader = reader

        # From here on only leaves below a split count: a tree without splits only adds to the bias.
        used, self._leaf = np.unique(reader.element_leaf, return_inverse=True)
        self._starts = np.flatnonzero(np.r_[True, np.diff(self._leaf) > 0]) if len(used) else used
        counts = np.bincount(self._leaf, minlength=len(used)) if len(used) else np.zeros(1, int)
        self._points = _gauss_legendre(max(1, -(-int(counts.max()) // 2)))
        self._scatter = self._scatter_matrix(np.array(leaf_values), reader)

    def _scatter_matrix(self, leaf_values: Floats, reader: _Reader) -> Any:
        """The matrix from path elements to (class, feature), weighted with the leaf's values."""
        from scipy.sparse import csr_matrix  # type: ignore[import-untyped]

        values = leaf_values[reader.element_leaf]
        element, output = np.nonzero(values)
        column = output * (self.features + 1) + reader.element_feature[element]
        shape = (len(reader.element_leaf), self.classes * (self.features + 1))
        return csr_matrix((values[element, output], (element, column)), shape=shape)

    def explain(self, rows: Array) -> npt.NDArray[np.float32]:
        """SHAP values of each row.

        Args:
            rows: (n, features), NaN for a missing value.

        Returns:
            (n, classes, features + 1): each feature's share of the raw score, and in the last
            place the score's mean over the training rows. Their sum is the row's raw score.
        """
        result = np.zeros((len(rows), self.classes * (self.features + 1)))
        elements = len(self._leaf)
        step = max(1, _CHUNK // max(1, elements))
        for start in range(0, len(rows) if elements else 0, step):
            fulfilled = self._reader.meets_conditions(rows[start : start + step])
            result[start : start + step] = self._shares(fulfilled) @ self._scatter
        shaped = result.reshape(len(rows), self.classes, self.features + 1)
        shaped[:, :, -1] = self.bias
        return shaped.astype(np.float32)

    def _shares(self, fulfilled: npt.NDArray[np.bool_]) -> Floats:
        """The Shapley value of each row and path element, for a leaf of value 1."""
        share = self._reader.element_share
        total = np.zeros(fulfilled.shape)
        for point, weight in self._points:
            term = fulfilled * point + share * (1 - point)
            product = np.multiply.reduceat(term, self._starts, axis=1)[:, self._leaf]
            # A factor is 0 only if neither a training row nor this row meets the condition. Then
            # the element's own factor (o - z) is 0, too.
            total += weight * np.divide(product, term, out=np.zeros_like(term), where=term > 0)
        return total * (fulfilled - share)


class _Reader:
    """Collects the splits and the paths of all trees in flat arrays.

    A path element is one feature on the path to one leaf; several splits on the same feature
    belong to the same element.
    """

    def __init__(self) -> None:
        self.leaves = 0
        self.nodes = 0
        self._feature: list[Array] = []
        self._threshold: list[Array] = []
        self._operator: list[Array] = []
        self._default_left: list[Array] = []
        self._categories: list[_Categories] = []
        self._step_node: list[int] = []
        self._step_left: list[bool] = []
        self._element_start: list[int] = []
        self._element_leaf: list[int] = []
        self._element_feature: list[int] = []
        self._element_share: list[float] = []

    def read(self, tree: Any) -> list[tuple[float, Floats]]:
        """Add one tree; returns each leaf's share of the training rows and its values."""
        left, right = tree.get_field("cleft"), tree.get_field("cright")
        feature = tree.get_field("split_index")
        cover = _cover(tree)
        self._add_splits(tree, left)
        found: list[tuple[float, Floats]] = []
        # (node, depth, its path: feature → (share of the rows, [(split, goes left)]))
        stack: list[tuple[int, int, dict[int, tuple[float, list[tuple[int, bool]]]]]] = [(0, 0, {})]
        while stack:
            node, depth, path = stack.pop()
            if left[node] == -1:
                if depth >= DEEPEST:
                    raise NotExplainable(
                        "Tree depths above 32 not supported. Shap cannot be considered accurate "
                        "at this depth."
                    )
                found.append((self._reach(cover, node), _leaf_values(tree, node)))
                self._add_leaf(path)
                continue
            if cover is None:
                raise NotExplainable("Model does not have node statistics.")
            for child, goes_left in ((right[node], False), (left[node], True)):
                share, steps = path.get(int(feature[node]), (1.0, []))
                part = float(cover[child] / cover[node]) if cover[node] else 0.0
                step = (self.nodes + node, goes_left)
                deeper = {**path, int(feature[node]): (share * part, [*steps, step])}
                stack.append((int(child), depth + 1, deeper))
        self.nodes += len(left)
        return found

    @staticmethod
    def _reach(cover: Array | None, leaf: int) -> float:
        """The share of all training rows that end in this leaf; 1 in a tree without splits."""
        if leaf == 0 or cover is None or not cover[0]:
            return 1.0
        return float(cover[leaf] / cover[0])

    def _add_splits(self, tree: Any, left: Array) -> None:
        self._feature.append(np.maximum(tree.get_field("split_index"), 0))
        self._threshold.append(tree.get_field("threshold"))
        self._operator.append(tree.get_field("cmp"))
        self._default_left.append(tree.get_field("default_left").astype(bool))
        kinds = tree.get_field("node_type")
        for node in np.flatnonzero((kinds == _CATEGORICAL) & (left != -1)):
            begin = int(tree.get_field("category_list_begin")[node])
            end = int(tree.get_field("category_list_end")[node])
            self._categories.append(
                _Categories(
                    node=self.nodes + int(node),
                    feature=int(tree.get_field("split_index")[node]),
                    values=tree.get_field("category_list")[begin:end],
                    right=bool(tree.get_field("category_list_right_child")[node]),
                )
            )

    def _add_leaf(self, path: dict[int, tuple[float, list[tuple[int, bool]]]]) -> None:
        for feature, (share, steps) in path.items():
            self._element_start.append(len(self._step_node))
            self._element_leaf.append(self.leaves)
            self._element_feature.append(feature)
            self._element_share.append(share)
            for node, goes_left in steps:
                self._step_node.append(node)
                self._step_left.append(goes_left)
        self.leaves += 1

    def finish(self) -> None:
        """Turn the lists into arrays, after all trees are read."""
        self.feature = np.concatenate(self._feature)
        self.threshold = np.concatenate(self._threshold)
        self.operator = np.concatenate(self._operator)
        self.default_left = np.concatenate(self._default_left)
        self.step_node = np.array(self._step_node, dtype=np.int64)
        self.step_left = np.array(self._step_left, dtype=bool)
        self.element_start = np.array(self._element_start, dtype=np.int64)
        self.element_leaf = np.array(self._element_leaf, dtype=np.int64)
        self.element_feature = np.array(self._element_feature, dtype=np.int64)
        self.element_share = np.array(self._element_share, dtype=np.float64)

    def meets_conditions(self, rows: Array) -> npt.NDArray[np.bool_]:
        """Whether each row meets every condition of each element: (n, elements)."""
        goes_left = self._goes_left(rows.astype(self.threshold.dtype, copy=False))
        step_met = goes_left[:, self.step_node] == self.step_left
        return np.logical_and.reduceat(step_met, self.element_start, axis=1)

    def _goes_left(self, rows: Array) -> npt.NDArray[np.bool_]:
        """Whether each row goes to the left child at each split: (n, nodes)."""
        values = rows[:, self.feature]
        result = np.zeros(values.shape, dtype=bool)
        for code, compare in _COMPARE.items():
            at = np.flatnonzero(self.operator == code)
            if at.size:
                result[:, at] = compare(values[:, at], self.threshold[at])
        for split in self._categories:
            column = rows[:, split.feature]
            usable = np.nan_to_num(column, nan=-1.0)
            matches = (usable >= 0) & np.isin(np.trunc(usable), split.values)
            result[:, split.node] = matches != split.right
        return np.where(np.isnan(values), self.default_left, result)


def _gauss_legendre(count: int) -> list[tuple[float, float]]:
    """Points and weights to integrate from 0 to 1; exact up to degree 2 * count - 1."""
    points, weights = np.polynomial.legendre.leggauss(count)  # type: ignore[no-untyped-call]
    return [((p + 1) / 2, w / 2) for p, w in zip(points, weights, strict=True)]


def _cover(tree: Any) -> Array | None:
    """The number (or the weight) of the training rows that reached each node; None if unknown.

    If the model has both, the weight is taken, as in the real backend.
    """
    for field in ("sum_hess", "data_count"):
        present = tree.get_field(f"{field}_present")
        if present.size and present.all():
            return np.asarray(tree.get_field(field), dtype=np.float64)
    return None


def _leaf_values(tree: Any, node: int) -> Floats:
    begin = tree.get_field("leaf_vector_begin")
    end = tree.get_field("leaf_vector_end")
    if begin.size and end[node] > begin[node]:
        vector = tree.get_field("leaf_vector")[int(begin[node]) : int(end[node])]
        return np.asarray(vector, dtype=np.float64)
    return np.array([tree.get_field("leaf_value")[node]], dtype=np.float64)
