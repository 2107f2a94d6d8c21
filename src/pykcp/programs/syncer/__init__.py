"""The program `syncer`."""
