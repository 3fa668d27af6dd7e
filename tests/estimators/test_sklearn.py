"""scikit-learn's own checks: all of them on one estimator, on the others those of what a family adds.

Their data are real numbers, so the estimators run with `binarize`; strict mode is tested elsewhere.  Fits that are
pickled, cloned, used twice or given their rows in another order or form are in test_face, for every family.
"""

from __future__ import annotations

import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import estimator_checks_generator
from tests.fitted import SHORT, new
from tests.tables import classes

from latentbits import BernoulliProduct
from latentbits.estimators.families import families

# what suits data that are no bits
SETTINGS = {
    "clipped-gaussian": {"repair": True},
    "latent-tree": {"n_states": 2, "tol": 1e-3},
    "combination-machine": {"n_hidden": 2, "max_iter": 3, "binarize": 0.0},
    "binary-sparse-coding": {"n_causes": 2, "max_iter": 3, "binarize": None},
    "noisy-or": {"layer_sizes": (2,), "max_iter": 500, "tol": 0.1, "binarize": 0.0},
}
ESTIMATORS = [
    one.cls(**{"binarize": 0.5, **SHORT.get(one.name, {}), **SETTINGS.get(one.name, {})}) for one in families()
]
STAND_INS = {one.class_name for one in families() if not one.searched}
WHOLE = BernoulliProduct  # for which the least is compiled
# Learning from one row or one column is a family's own; each has a table of a shape to compile for.
OWN = {"check_fit2d_1feature", "check_fit2d_1sample"}
# How tables and weights are read, named and kept is the base class's.  Rows on their own are in test_face.
OF_THE_BASE = {
    "check_array_api_input",
    "check_dict_unchanged",
    "check_dont_overwrite_parameters",
    "check_dtype_object",
    "check_estimator_sparse_array",
    "check_estimator_sparse_matrix",
    "check_estimator_sparse_tag",
    "check_estimators_dtypes",
    "check_estimators_fit_returns_self",
    "check_estimators_overwrite_params",
    "check_estimators_pickle",
    "check_f_contiguous_array_estimator",
    "check_fit2d_predict1d",
    "check_fit_check_is_fitted",
    "check_fit_idempotent",
    "check_fit_score_takes_y",
    "check_methods_sample_order_invariance",
    "check_methods_subset_invariance",
    "check_n_features_in",
    "check_n_features_in_after_fitting",
    "check_pipeline_consistency",
    "check_positive_only_tag_during_fit",
    "check_readonly_memmap_input",
    "check_sample_weight_equivalence_on_dense_data",
    "check_sample_weight_equivalence_on_sparse_data",
    "check_sample_weights_list",
    "check_sample_weights_not_an_array",
    "check_sample_weights_not_overwritten",
    "check_sample_weights_pandas_series",
    "check_sample_weights_shape",
    "check_transformer_data_not_an_array",
    "check_transformer_general",
    "check_transformer_n_iter",
}


def checks_of(estimator):
    """Give its checks by name."""
    family, whole = type(estimator).__name__, isinstance(estimator, WHOLE)
    for instance, check in estimator_checks_generator(estimator):
        kind = check.func.__name__
        if kind not in OF_THE_BASE or whole:
            slow = (kind in OWN and not whole) or family in STAND_INS
            marks = [pytest.mark.slow("edges of learning, for each family")] if slow else []
            yield pytest.param(
                instance, check, id="-".join([family, kind, *map(str, check.keywords.values())]), marks=marks
            )


@pytest.mark.parametrize(("estimator", "check"), [pair for estimator in ESTIMATORS for pair in checks_of(estimator)])
def test_scikit_learn_compatible(estimator, check):
    check(estimator)


@pytest.mark.slow("seven fits")
def test_grid_search_chooses_by_held_out_likelihood():
    search = GridSearchCV(new("mixture"), {"n_components": [1, 2]}, cv=3)
    assert search.fit(classes()).best_params_["n_components"] == 2


def test_features_in_a_pipeline():
    X = classes(means=[[0.9, 0.8, 0.1, 0.2, 0.5, 0.5], [0.1, 0.2, 0.9, 0.8, 0.5, 0.5]])
    y = X[:, 0] + X[:, 1] > 1
    assert make_pipeline(new("mixture"), LogisticRegression()).fit(X, y).score(X, y) > 0.8
