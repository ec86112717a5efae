"""Coverage errors without a reference: omissions, additions and repetitions in translations of any system."""
