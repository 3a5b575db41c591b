"""GPUs that aren't there, as torch tells of them."""

from types import SimpleNamespace


def a_gpu(bus: int, uuid: str | None = None) -> SimpleNamespace:
    """As ``torch.cuda.get_device_properties`` gives it, of a GPU at this place on its machine's PCI bus."""
    place = {"pci_domain_id": 0, "pci_bus_id": bus, "pci_device_id": 0}
    return SimpleNamespace(uuid=uuid or f"GPU-{bus}", **place)
