//! Delivery: tokens, tracker, watermark, ledger, start positions; pure code
