"""Other libraries' signatures over our answers."""
