import Basics
import Digests

/// Server-side encryption (COS, "Server-Side Encryption"). Nothing is encrypted; who must send which key is checked.
extension COSDialect {
    private static let header = "x-cos-server-side-encryption"
    static let sourceKeyPrefix = "x-cos-copy-source-server-side-encryption-customer-"

    static func encryption(_ request: ServerRequest) throws(COSError) -> Encryption {
        if let keyMD5 = try customerKey(request, prefix: "\(header)-customer-") { return .customer(keyMD5: keyMD5) }
        switch request.header(header) {
        case nil: return .unstated
        case "AES256": return .managed
        case "cos/kms":
            if let context = request.header("\(header)-context"), Base64.decode(context) == nil {
                throw COSError.invalidArgument("\(header)-context must be base64.")
            }
            return .keyService(mode: "aws:kms", keyID: request.header("\(header)-cos-kms-key-id") ?? "pailstore")
        case let mode?: throw COSError.invalidArgument("The \(header) '\(mode)' is neither AES256 nor cos/kms.")
        }
    }

    /// The MD5 of the key a client sent, checked; nil without one.
    static func customerKey(_ request: ServerRequest, prefix: String) throws(COSError) -> String? {
        let algorithm = request.header("\(prefix)algorithm")
        let (key, digest) = (request.header("\(prefix)key"), request.header("\(prefix)key-md5"))
        guard algorithm != nil || key != nil || digest != nil else { return nil }
        guard algorithm == "AES256" else {
            throw COSError.invalidArgument("\(prefix)algorithm must be AES256.")
        }
        guard let bytes = key.flatMap({ Base64.decode($0) }), bytes.count == 32, let digest,
            Base64.encode(MD5.of(bytes)) == digest
        else {
            throw COSError.invalidArgument("\(prefix)key must be 32 bytes in base64, and \(prefix)key-MD5 their MD5.")
        }
        return digest
    }

    /// Objects with a key of the client's are only for those who send it again.
    static func checkCustomerKey(
        _ encryption: Encryption, _ request: ServerRequest, prefix: String = "x-cos-server-side-encryption-customer-"
    ) throws(COSError) {
        let sent = try customerKey(request, prefix: prefix)
        guard case .customer(let keyMD5) = encryption else {
            guard sent == nil else {
                throw COSError.invalidRequest("The encryption parameters are not applicable to this object.")
            }
            return
        }
        guard sent == keyMD5 else {
            throw COSError(
                400, "SsecDecryptHeaderInvalid",
                "The object is encrypted with a key of its writer's, which is missing or another.")
        }
    }

    static func encryptionHeaders(_ encryption: Encryption) -> [Field] {
        switch encryption {
        case .unstated: []
        case .managed: [Field(header, "AES256")]
        case .keyService(_, let keyID): [Field(header, "cos/kms"), Field("\(header)-cos-kms-key-id", keyID)]
        case .customer(let keyMD5):
            [Field("\(header)-customer-algorithm", "AES256"), Field("\(header)-customer-key-MD5", keyMD5)]
        }
    }
}
