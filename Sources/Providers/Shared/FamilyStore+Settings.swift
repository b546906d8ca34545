import Basics
import FoundationEssentials
import HTTP
import ObjectStorage

/// Options that this store does not support, or not with these values.
extension FamilyStore {
    /// Throws at once for an option that would fail at the first object.
    func checkSettings(_ endpoint: FamilyEndpoint) throws(ObjectStoreError) {
        func refused(_ reason: String) -> ObjectStoreError {
            ObjectStoreError(.invalidRequest, .checkAccess, code: "InvalidSetting", message: reason)
        }
        if let key = settings.customerKey {
            guard profile.customerKeys else {
                throw refused(
                    "\(profile.name) does not support encryption with your own key; leave out sse-customer-key-file")
            }
            guard Base64.decode(key.revealed)?.count == 32 else {
                throw refused("the key in sse-customer-key-file must have 32 bytes, raw or in base64")
            }
            guard endpoint.origin.isSecure || FamilyEndpoint.isThisMachine(endpoint.origin.host) else {
                throw refused("the key in sse-customer-key-file is sent over https:// only, not to \(endpoint.origin)")
            }
        }
        guard !settings.keepsACL || profile.capabilities.accessControl else {
            throw refused("\(profile.name) does not support access control lists; leave out acl=keep")
        }
        if let context = settings.encryptionContext {
            guard profile.encryptionContextHeader != nil else {
                throw refused("\(profile.name) does not support an encryption context; leave out sse-context")
            }
            guard let mode = settings.encryption, !profile.plainEncryptions.contains(mode) else {
                throw refused("sse-context needs a key service; set sse to it, or leave out sse-context")
            }
            guard Self.isEncryptionContext(context) else {
                throw refused("sse-context is not a JSON object of strings in base64")
            }
        }
        if let limit = settings.trafficLimit {
            guard let limits = profile.trafficLimits, limits.contains(limit) else {
                let allowed = profile.trafficLimits.map { "\($0.lowerBound) to \($0.upperBound) bits per second" }
                throw refused("traffic-limit cannot be \(limit): \(profile.name) accepts \(allowed ?? "none")")
            }
        }
        if let acl = settings.acl, !profile.cannedACLs.isEmpty, !profile.cannedACLs.contains(acl) {
            throw refused(
                "\(acl) is not a canned ACL of \(profile.name); write one of \(profile.cannedACLs.sorted().joined(separator: ", "))"
            )
        }
    }

    /// Base64 of a JSON object whose values are strings (Amazon S3 API Reference, PutObject).
    private static func isEncryptionContext(_ text: String) -> Bool {
        guard let document = Base64.decode(text) else { return false }
        return (try? JSONDecoder().decode([String: String].self, from: Data(document))) != nil
    }
}
