"""Translation of exported models with CTranslate2, a C++ inference engine."""
