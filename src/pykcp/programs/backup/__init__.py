"""`kcp backup` and `kcp restore`: whole installations, their stores and the files beside them."""
