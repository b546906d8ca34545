import Digests
import ObjectStorage
import Synchronization

/// The key for signatures of version 4, a chain of HMACs over day, region and service (AWS, "Create a signed
/// request"; OSS API, "Signature Version 4").
///
/// Caches the key of the last day, region and secret. Locks: a leaf.
final class SigningKey: Sendable {
    private struct Known {
        let day: String
        let region: String
        let secret: Secret
        let key: [UInt8]
    }

    private let prefix: String
    private let service: String
    private let ending: String
    private let known = Mutex<Known?>(nil)

    /// `prefix` precedes the secret, `ending` is the last link of the chain.
    init(prefix: String, service: String, ending: String) {
        (self.prefix, self.service, self.ending) = (prefix, service, ending)
    }

    func bytes(day: String, region: String, secret: Secret) -> [UInt8] {
        if let known = known.withLock({ $0 }), known.day == day, known.region == region, known.secret == secret {
            return known.key
        }
        var key = Array("\(prefix)\(secret.revealed)".utf8)
        for part in [day, region, service, ending] { key = HMAC.sha256(part, key: key) }
        let made = Known(day: day, region: region, secret: secret, key: key)
        known.withLock { $0 = made }
        return key
    }
}
