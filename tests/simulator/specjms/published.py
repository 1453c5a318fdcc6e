"""The figures of Sachs, "Performance Modeling and Benchmarking of Event-Based Systems"."""

from __future__ import annotations

from simulator.specjms import Phases

SHORT = Phases(warm_up=2.0, measurement=20.0, drain=10.0)

VERTICAL_COUNTS = {
    1: (61672.71, 61672.71),
    2: (27341.57, 31658.66),
    3: (674.55, 6745.45),
    4: (21877.14, 21877.14),
    5: (77869.59, 77869.59),
    6: (1919.96, 19199.58),
    7: (1383.68, 13836.83),
}

BASE_TIMES_SECONDS = 13490.906
"""Printed as 13490.9; the counts above need the rest."""

MEANS = {
    "order": 2.34,
    "orderConf": 2.63,
    "shipDep": 1.96,
    "shipInfo": 2.13,
    "shipConf": 1.03,
    "statInfoOrderDC": 0.39,
    "callForOffers": 1.93,
    "offer": 2.50,
    "pOrder": 2.67,
    "pOrderConf": 2.86,
    "invoice": 2.33,
    "pShipInfo": 1.24,
    "pShipConf": 1.28,
    "statInfoShipDC": 1.29,
    "priceUpdate": 0.24,
    "inventoryInfo": 2.31,
    "productAnnouncement": 1.26,
    "creditCardHL": 1.80,
    "statInfoSM": 5.27,
}
