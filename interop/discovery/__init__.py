"""The devices of this machine; the only folder that knows all APIs."""
