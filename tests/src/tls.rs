//! Certificates of our own: an authority, and what it signs, valid for any time one likes.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::Result;
use openssl::asn1::Asn1Time;
use openssl::bn::{BigNum, MsbOption};
use openssl::ec::{EcGroup, EcKey};
use openssl::hash::MessageDigest;
use openssl::nid::Nid;
use openssl::pkey::{PKey, Private};
use openssl::x509::extension::{BasicConstraints, KeyUsage, SubjectAlternativeName};
use openssl::x509::{X509, X509Builder, X509Name, X509NameBuilder};

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// A certificate authority that nobody knows unless told.
pub struct Authority {
    certificate: X509,
    key: PKey<Private>,
}

/// A certificate with its key, both as PEM.
pub struct Identity {
    /// The certificate.
    pub certificate: String,
    /// Its private key, as PKCS #8.
    pub key: String,
}

/// When a certificate holds.
#[derive(Clone, Copy, Debug)]
pub enum Validity {
    /// Yesterday to tomorrow.
    Now,
    /// Until yesterday.
    Expired,
    /// From yesterday, and for so long from now.
    For(Duration),
}

impl Authority {
    /// A new one.
    ///
    /// # Errors
    /// What the cryptographic library says.
    pub fn new(name: &str) -> Result<Self> {
        let key = new_key()?;
        let name = common_name(name)?;
        let mut certificate = start(&name, &name, &key, Validity::Now)?;
        certificate.append_extension(BasicConstraints::new().critical().ca().build()?)?;
        certificate.append_extension(KeyUsage::new().critical().key_cert_sign().crl_sign().build()?)?;
        certificate.sign(&key, MessageDigest::sha256())?;
        Ok(Self { certificate: certificate.build(), key })
    }

    /// Its certificate as PEM, for those who are to trust it.
    ///
    /// # Errors
    /// What the cryptographic library says.
    pub fn certificate(&self) -> Result<String> {
        Ok(String::from_utf8(self.certificate.to_pem()?)?)
    }

    /// Signs a new certificate for a name, good for 127.0.0.1.
    ///
    /// # Errors
    /// What the cryptographic library says.
    pub fn issue(&self, name: &str, validity: Validity) -> Result<Identity> {
        let key = new_key()?;
        let name = common_name(name)?;
        let mut certificate = start(&name, self.certificate.subject_name(), &key, validity)?;
        let names = SubjectAlternativeName::new()
            .ip("127.0.0.1")
            .dns("localhost")
            .build(&certificate.x509v3_context(Some(&self.certificate), None))?;
        certificate.append_extension(names)?;
        certificate.append_extension(BasicConstraints::new().build()?)?;
        certificate.sign(&self.key, MessageDigest::sha256())?;
        Ok(Identity {
            certificate: String::from_utf8(certificate.build().to_pem()?)?,
            key: String::from_utf8(key.private_key_to_pem_pkcs8()?)?,
        })
    }
}

impl Identity {
    /// Key and certificate in one text, as Kafka wants its key store.
    pub fn both(&self) -> String {
        format!("{}{}", self.key, self.certificate)
    }
}

fn new_key() -> Result<PKey<Private>> {
    let curve = EcGroup::from_curve_name(Nid::X9_62_PRIME256V1)?;
    Ok(PKey::from_ec_key(EcKey::generate(&curve)?)?)
}

fn common_name(name: &str) -> Result<X509Name> {
    let mut builder = X509NameBuilder::new()?;
    builder.append_entry_by_nid(Nid::COMMONNAME, name)?;
    Ok(builder.build())
}

/// What every certificate has.
fn start(
    subject: &openssl::x509::X509NameRef,
    issuer: &openssl::x509::X509NameRef,
    key: &PKey<Private>,
    validity: Validity,
) -> Result<X509Builder> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH)?;
    let (from, until) = match validity {
        Validity::Now => (now - DAY, now + DAY),
        Validity::Expired => (now - 10 * DAY, now - DAY),
        Validity::For(time) => (now - DAY, now + time),
    };
    let time = |at: Duration| Asn1Time::from_unix(at.as_secs() as i64);
    let mut builder = X509::builder()?;
    // Counted from 0: the third version of the format.
    builder.set_version(2)?;
    let mut serial = BigNum::new()?;
    serial.rand(127, MsbOption::MAYBE_ZERO, false)?;
    builder.set_serial_number(&*serial.to_asn1_integer()?)?;
    builder.set_subject_name(subject)?;
    builder.set_issuer_name(issuer)?;
    builder.set_pubkey(key)?;
    builder.set_not_before(&*time(from)?)?;
    builder.set_not_after(&*time(until)?)?;
    Ok(builder)
}
