//! What a broker is to the host: traits, librdkafka, memory broker
