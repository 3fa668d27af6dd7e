"""Lee & Sompolinsky (1998), Learning a Continuous Hidden Variable Model for Binary Data: figures 2 to 4, and claims."""
