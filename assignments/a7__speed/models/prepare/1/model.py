"""First step of the service: a picture becomes what the network takes."""

import math

import numpy as np
import triton_python_backend_utils as pb_utils

SIDE = 64  # pixels of a picture, in both directions
SMALL = 16  # pixels of what the network takes
RED, GREEN, BLUE = 0.299, 0.587, 0.114  # how bright the colours are to the eye (Rec. 601)


def to_grey(picture):
    """Colours (64, 64, 3) to grey: a list of rows, each a list of 64 numbers from 0 to 255."""
    rows = []
    for y in range(SIDE):
        row = []
        for x in range(SIDE):
            red, green, blue = picture[y, x]
            row.append(RED * float(red) + GREEN * float(green) + BLUE * float(blue))
        rows.append(row)
    return rows


def smooth(rows):
    """Against noise: each pixel becomes the mean of 3 x 3. Outside, the border is repeated."""
    edged = [[row[0], *row, row[-1]] for row in (rows[0], *rows, rows[-1])]
    result = []
    for y in range(SIDE):
        row = []
        for x in range(SIDE):
            total = 0.0
            for near in edged[y : y + 3]:
                total += sum(near[x : x + 3])
            row.append(total / 9)
        result.append(row)
    return result


def shrink(rows):
    """64 x 64 to 16 x 16: each new pixel is the mean of a square of 4 x 4 old ones."""
    step = SIDE // SMALL
    small = []
    for y in range(SMALL):
        row = []
        for x in range(SMALL):
            total = 0.0
            for dy in range(step):
                for dx in range(step):
                    total += rows[step * y + dy][step * x + dx]
            row.append(total / step**2)
        small.append(row)
    return small


def normalise(rows):
    """Take the picture's mean off, and divide by its standard deviation plus 1."""
    count = SMALL * SMALL
    total = 0.0
    for row in rows:
        for value in row:
            total += value
    mean = total / count
    squares = 0.0
    for row in rows:
        for value in row:
            squares += (value - mean) ** 2
    deviation = math.sqrt(squares / count)
    result = []
    for row in rows:
        result.append([(value - mean) / (deviation + 1.0) for value in row])
    return result


class TritonPythonModel:
    def execute(self, requests):
        responses = []
        for request in requests:
            pictures = pb_utils.get_input_tensor_by_name(request, "picture").as_numpy()
            prepared = []
            for picture in pictures:
                prepared.append([normalise(shrink(smooth(to_grey(picture))))])
            small = pb_utils.Tensor("small", np.array(prepared, dtype=np.float32))
            responses.append(pb_utils.InferenceResponse([small]))
        return responses
