import joblib
import treelite

home = models / "pickled"
forest = joblib.load(home / "1/forest.joblib")
treelite.sklearn.import_model(forest).serialize(home / "1/checkpoint.tl")
text = (home / "config.pbtxt").read_text()
(home / "config.pbtxt").write_text(text.replace('"sklearn"', '"treelite_checkpoint"'))
lab.load("pickled")
