from __future__ import annotations
from .channel import Channel
class ExternalMemory(Channel):
    name = "external memory (a Vulkan allocation)"
    @staticmethod
    def why_not(gl, cl):
        return "not yet"
