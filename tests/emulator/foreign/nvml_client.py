"""NVML's Python bindings (nvidia-ml-py), beside the driver's: both tell of one device."""
import ctypes
import sys

import pynvml
from cuda.bindings import driver

import cases

MIB = 1 << 20


def good(answer):
    result, *values = answer
    assert result == driver.CUresult.CUDA_SUCCESS, result
    return values[0] if len(values) == 1 else values


def text(value):
    return value.decode() if isinstance(value, bytes) else value


class Initialized:
    def __enter__(self):
        pynvml.nvmlInit()
        return pynvml.nvmlDeviceGetHandleByIndex(0)

    def __exit__(self, *_):
        pynvml.nvmlShutdown()


def raises(error, function, *arguments):
    try:
        function(*arguments)
    except error:
        return True
    return False


def case_before_init():
    """nothing is answered before nvmlInit, nor behind the last nvmlShutdown"""
    assert raises(pynvml.NVMLError_Uninitialized, pynvml.nvmlDeviceGetCount)
    with Initialized(), Initialized():
        pass
    assert raises(pynvml.NVMLError_Uninitialized, pynvml.nvmlShutdown)


def case_device():
    """NVML and the driver say the same of the device"""
    good(driver.cuInit(0))
    with Initialized() as handle:
        assert pynvml.nvmlDeviceGetCount() == good(driver.cuDeviceGetCount()) == 1
        name = good(driver.cuDeviceGetName(99, 0)).split(b"\0")[0].decode()
        assert text(pynvml.nvmlDeviceGetName(handle)) == name and "EMULATED" in name
        uuid = bytes(good(driver.cuDeviceGetUuid(0)).bytes).hex()
        assert text(pynvml.nvmlDeviceGetUUID(handle)).replace("-", "") == "GPU" + uuid
        capability = [good(driver.cuDeviceGetAttribute(which, 0)) for which in
                      (driver.CUdevice_attribute.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR,
                       driver.CUdevice_attribute.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)]
        assert list(pynvml.nvmlDeviceGetCudaComputeCapability(handle)) == capability
        pci = pynvml.nvmlDeviceGetPciInfo(handle)
        bus_id = good(driver.cuDeviceGetPCIBusId(32, 0)).split(b"\0")[0].decode()
        assert text(pci.busId) == "0000" + bus_id and text(pci.busIdLegacy) == bus_id


def case_handles():
    """a device is found by its number, UUID and place on the bus, and no other is"""
    with Initialized() as handle:
        uuid = text(pynvml.nvmlDeviceGetUUID(handle))
        assert pynvml.nvmlDeviceGetIndex(pynvml.nvmlDeviceGetHandleByUUID(uuid)) == 0
        bus_id = text(pynvml.nvmlDeviceGetPciInfo(handle).busId)
        assert pynvml.nvmlDeviceGetIndex(pynvml.nvmlDeviceGetHandleByPciBusId(bus_id)) == 0
        assert raises(pynvml.NVMLError_InvalidArgument, pynvml.nvmlDeviceGetHandleByIndex, 1)
        assert raises(pynvml.NVMLError_NotFound, pynvml.nvmlDeviceGetHandleByUUID, uuid[:-1] + "x")


def case_memory():
    """memory that the process takes is used, by both forms of the question"""
    good(driver.cuInit(0))
    context = good(driver.cuDevicePrimaryCtxRetain(0))
    good(driver.cuCtxSetCurrent(context))
    with Initialized() as handle:
        before = pynvml.nvmlDeviceGetMemoryInfo(handle)
        assert before.total == good(driver.cuDeviceTotalMem(0))
        memory = good(driver.cuMemAlloc(64 * MIB))
        for version in (None, pynvml.nvmlMemory_v2):
            after = pynvml.nvmlDeviceGetMemoryInfo(handle, version)
            free, total = good(driver.cuMemGetInfo())
            assert after.used - before.used == 64 * MIB
            assert (after.free, after.total) == (free, total)
        good(driver.cuMemFree(memory))
        assert pynvml.nvmlDeviceGetMemoryInfo(handle).used == before.used
    good(driver.cuDevicePrimaryCtxRelease(0))


def case_versions():
    """NVML names a driver of the version of CUDA that the driver reports"""
    with Initialized():
        assert pynvml.nvmlSystemGetCudaDriverVersion_v2() == good(driver.cuDriverGetVersion())
        release = text(pynvml.nvmlSystemGetDriverVersion())
        assert int(release.split(".")[0]) >= 535
        assert text(pynvml.nvmlSystemGetNVMLVersion()).endswith(release)


def case_not_there():
    """what an emulated device has not is not supported, what this NVML lacks is not found"""
    with Initialized() as handle:
        for question in (pynvml.nvmlDeviceGetUtilizationRates, pynvml.nvmlDeviceGetPowerUsage,
                         pynvml.nvmlDeviceGetComputeRunningProcesses, pynvml.nvmlDeviceGetMigMode):
            assert raises(pynvml.NVMLError_NotSupported, question, handle), question
        assert raises(pynvml.NVMLError_NotSupported, pynvml.nvmlDeviceGetTemperature, handle, 0)
        assert raises(pynvml.NVMLError_FunctionNotFound, pynvml.nvmlUnitGetCount)


def case_one_library():
    """NVML is found by name beside the driver"""
    library = ctypes.CDLL("libnvidia-ml.so.1")
    library.nvmlErrorString.restype = ctypes.c_char_p
    assert library.nvmlErrorString(1) == b"NVML was not first initialized with nvmlInit()"


if __name__ == "__main__":
    cases.run(sys.modules[__name__])
