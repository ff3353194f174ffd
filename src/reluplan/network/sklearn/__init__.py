"""Networks from fitted scikit-learn estimators; scikit-learn is imported only when one is converted."""

from reluplan.network.sklearn import combinations as combinations
from reluplan.network.sklearn import regressors as regressors
from reluplan.network.sklearn import transformers as transformers
from reluplan.network.sklearn.convert import from_sklearn as from_sklearn
from reluplan.network.sklearn.estimators import SKLEARN_ESTIMATORS as SKLEARN_ESTIMATORS
from reluplan.network.sklearn.estimators import SKLEARN_INVERSES as SKLEARN_INVERSES
