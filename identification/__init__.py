"""From traces to models, on Spark.

One grouped aggregation turns any number of transitions into a few numbers per group,
:mod:`identification.statistics`; everything after that is plain arithmetic on them:
the knee of the curve (:mod:`identification.knee`), least squares
(:mod:`identification.least_squares`) and the verdict (:mod:`identification.fit`).

    from identification import identify
    from identification.session import session

    with session() as spark:
        for fit in identify(spark, "traces/"):
            print(fit.group, fit.model or fit.reason)
"""

from controlmq.extras import check

# Before the imports below: they would fail without naming the extra.
check({"identification": ["pyspark", "numpy", "pandas", "pyarrow"]}, "identification")

from identification.curves import Curve
from identification.diagnosis import Diagnosis
from identification.fit import Fit
from identification.job import curve, diagnose_traces, identify

__all__ = ["Curve", "Diagnosis", "Fit", "curve", "diagnose_traces", "identify"]
