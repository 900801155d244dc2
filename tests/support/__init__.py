"""What tests of all rooms are built with, each thing once: policies, engines, texts, flows, clocks, servers."""
