"""What the delivery of an order costs. Used by the shop and by customer service."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Decimal

FREE_FROM = Decimal("500.00")
"""Orders of this value or more are delivered free, islands excepted."""
PARCEL_LIMIT_KG = Decimal("31.5")
PARCEL = Decimal("6.90")
FREIGHT = Decimal("49.00")
FREIGHT_INCLUDED_KG = Decimal("40")
FREIGHT_PER_KG = Decimal("0.35")
ISLAND = Decimal("38.00")
CARRY_UP = Decimal("25.00")
"""Carrying to the room of the customer's choice, for each floor above the second."""

ABROAD = {"DE": Decimal("1.00"), "DK": Decimal("1.00"), "NL": Decimal("1.25"), "AT": Decimal("1.40")}
"""Countries we deliver to, with the factor on the transport."""

ISLAND_POSTCODES = ("25849", "25859", "25863", "25869", "25938", "25946", "25980", "25992", "27498")
"""Pellworm, the Halligen, Föhr, Amrum, Sylt and Helgoland."""


@dataclass(frozen=True)
class Order:
    """What the cost depends on."""

    value: Decimal
    weight_kg: Decimal
    country: str
    postcode: str
    floor: int = 0


class NotDelivered(ValueError):
    """We do not deliver there."""


def shipping_cost(order: Order) -> Decimal:
    """The price of the delivery in euro, with tax.

    >>> shipping_cost(Order(Decimal("189"), Decimal("7.2"), "DE", "20095"))
    Decimal('6.90')
    >>> shipping_cost(Order(Decimal("849"), Decimal("64"), "DE", "25980"))
    Decimal('38.00')
    """
    if order.country not in ABROAD:
        raise NotDelivered(f"no delivery to {order.country}")
    base = Decimal(0) if order.value >= FREE_FROM else _transport(order.weight_kg) * ABROAD[order.country]
    if order.country == "DE" and order.postcode in ISLAND_POSTCODES:
        base += ISLAND
    base += CARRY_UP * max(0, order.floor - 2)
    return base.quantize(Decimal("0.01"), ROUND_HALF_UP)


def _transport(weight_kg: Decimal) -> Decimal:
    """A parcel up to its limit; a pallet beyond, with every kilogram over the included ones."""
    if weight_kg <= PARCEL_LIMIT_KG:
        return PARCEL
    return FREIGHT + FREIGHT_PER_KG * max(Decimal(0), weight_kg - FREIGHT_INCLUDED_KG)
