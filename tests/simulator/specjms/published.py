"""The figures of Sachs, "Performance Modeling and Benchmarking of Event-Based Systems"."""

from __future__ import annotations

from simulator.studies.specjms import Phases

SHORT = Phases(warm_up=2.0, measurement=20.0, drain=10.0)

VERTICAL_RATES = (
    *(0.076190476, 0.106666667, 0.05, 0.162162162, 0.577200577, 0.142314991, 0.102564103),
)
"""Interactions a second of each location that starts them, for each unit of BASE."""

HORIZONTAL_RATES = (
    *(1.53920154, 2.13333333, 6.0, 3.37837837, 11.54401154, 11.38519924, 9.23076923),
)

SCENARIO_RATES = {
    300: {1: 228.57, 2: 64, 3: 15, 4: 486.49, 5: 1731.60, 6: 42.69, 7: 30.77},
    550: {1: 419.05, 2: 117.33, 3: 27.5, 4: 891.89, 5: 3174.60, 6: 78.27, 7: 56.41},
    600: {4: 972.97, 5: 3463.20},
    800: {4: 1297.30, 5: 4617.60},
    6000: {3: 300, 6: 853.89, 7: 615.38},
    10000: {3: 500, 6: 1423.15, 7: 1025.64},
}
"""Interactions a second at each BASE, vertical, that was measured."""

GROUP_SHARES = {
    "horizontal": ((37.46, 12.45, 24.55, 25.55), (24.66, 2.41, 49.19, 23.74)),
    "vertical": ((14.19, 5.99, 39.09, 40.74), (7.19, 2.25, 61.03, 29.52)),
}
"""Percent of messages and of kilobytes received in groups a to d."""

INTERACTION_SHARES = (
    ((32.00, 14.19, 0.35, 11.35, 40.40, 1.00, 0.72), (26.48, 13.60, 2.90, 9.39, 33.44, 8.25, 5.94)),
    ((17.08, 9.05, 0.02, 8.01, 65.04, 0.39, 0.40), (15.74, 9.55, 0.23, 7.38, 59.91, 3.55, 3.65)),
)
"""Percent sent and received in interactions 1 to 7, vertical: of messages, then of kilobytes."""

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

SIZES = {
    "order": ((5, 1.74), (100, 7.10), (700, 41.01)),
    "orderConf": ((5, 2.02), (100, 7.39), (700, 41.29)),
    "shipDep": ((5, 1.12), (100, 8.59), (700, 55.79)),
    "shipInfo": ((5, 1.28), (100, 8.76), (700, 55.95)),
    "shipConf": ((5, 0.81), (100, 2.73), (700, 14.83)),
    "statInfoOrderDC": ((5, 0.22), (100, 1.67), (700, 10.83)),
    "callForOffers": ((3, 1.35), (35, 7.06), (200, 36.52)),
    "offer": ((3, 1.69), (35, 9.65), (200, 50.71)),
    "pOrder": ((3, 1.86), (35, 9.85), (200, 51.07)),
    "pOrderConf": ((3, 2.07), (35, 9.79), (200, 49.56)),
    "invoice": ((3, 1.70), (35, 7.92), (200, 39.95)),
    "pShipInfo": ((3, 0.98), (35, 3.62), (200, 17.26)),
    "pShipConf": ((3, 1.01), (35, 3.65), (200, 17.29)),
    "statInfoShipDC": ((3, 1.02), (35, 3.68), (200, 17.38)),
    "priceUpdate": ((0, 0.24), (0, 0.24), (0, 0.24)),
    "inventoryInfo": ((10, 1.48), (100, 10.22), (500, 49.03)),
    "productAnnouncement": ((0, 1.21), (0, 0.28), (0, 10.51)),
    "creditCardHL": ((50, 1.01), (500, 8.49), (3000, 50.00)),
    "statInfoSM": ((15, 4.70), (40, 13.83), (70, 24.78)),
}
"""Printed sizes in KB, each with how often the printed slope, rounded to 0.0001, counts in it."""

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
