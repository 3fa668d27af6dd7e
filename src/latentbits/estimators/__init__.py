"""scikit-learn estimators, one short file a family."""
