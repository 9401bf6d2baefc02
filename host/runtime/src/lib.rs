//! A plan as running stages on timely workers
