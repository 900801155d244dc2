"""Programs that ask the core: audits of lists, publishing, importing, the doctor, and Squid's helper."""
