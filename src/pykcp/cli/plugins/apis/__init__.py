"""Commands about APIs: binding them, answering their claims, making them out of CRDs."""
