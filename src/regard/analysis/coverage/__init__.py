"""Coverage errors without a reference: omissions, additions and repetitions in the translations of any system."""
