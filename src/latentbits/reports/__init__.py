"""What a statistician reads after a fit, as records that print as tables: pure functions of arrays, no estimators."""
