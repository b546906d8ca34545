import Basics
import Digests

extension ChecksumAlgorithm {
    /// `x-amz-checksum-crc32` and so on.
    var header: String { "x-amz-checksum-\(rawValue.lowercased())" }
    /// `ChecksumCRC32` and so on.
    var element: String { "Checksum\(rawValue)" }
    var digestLength: Int { makeHasher().finish().count }
    /// Whether the checksum of a whole can be told from those of its parts.
    var isLinear: Bool { self != .sha1 && self != .sha256 }

    func makeHasher() -> any Digest {
        switch self {
        case .crc32: CRC32()
        case .crc32c: CRC32C()
        case .crc64nvme: CRC64NVME()
        case .sha1: SHA1()
        case .sha256: SHA256()
        }
    }

    /// The checksum of parts in a row, for the linear ones.
    func combine(_ parts: [(digest: [UInt8], length: Int64)]) -> [UInt8] {
        func join<Sum: CRC>(_ type: Sum.Type) -> [UInt8] {
            let value = parts.reduce(Sum().value) { whole, part in
                Sum.combine(whole, Sum.value(ofDigest: part.digest), secondLength: part.length)
            }
            return (0..<(Sum.Value.bitWidth / 8)).reversed().map {
                UInt8(truncatingIfNeeded: value >> Sum.Value($0 * 8))
            }
        }
        return switch self {
        case .crc32: join(CRC32.self)
        case .crc32c: join(CRC32C.self)
        case .crc64nvme: join(CRC64NVME.self)
        case .sha1, .sha256: []
        }
    }
}

extension StoredChecksum {
    /// As headers and documents have it: base64, with `-N` when composed of N parts.
    var text: String { Base64.encode(digest) + (composedOf.map { "-\($0)" } ?? "") }
    var type: String { composedOf == nil ? "FULL_OBJECT" : "COMPOSITE" }
}

/// The checksums a request wants checked or kept.
struct RequestedChecksums {
    var md5: [UInt8]?
    var algorithm: ChecksumAlgorithm?
    /// nil when it comes in the trailer or is only asked for.
    var expected: [UInt8]?
    var comesInTrailer = false

    /// The value `digest` must have: from the header, or from the trailers that came behind the body.
    func expected(_ trailers: [Field]) throws(S3Error) -> [UInt8]? {
        guard comesInTrailer, let algorithm else { return expected }
        guard let text = trailers.first(where: { $0.name == algorithm.header })?.value, let value = Base64.decode(text)
        else {
            throw S3Error(
                400, "MalformedTrailerError", "The request contained trailing data that was not well-formed.")
        }
        return value
    }

    /// From `Content-MD5`, `x-amz-checksum-*`, `x-amz-trailer` and the algorithm headers.
    init(_ request: ServerRequest) throws(S3Error) {
        md5 = try S3Error.contentMD5(request)
        for candidate in ChecksumAlgorithm.allCases {
            guard let text = request.header(candidate.header) else { continue }
            guard algorithm == nil else {
                throw S3Error.invalidRequest(
                    "Expecting a single x-amz-checksum- header. Multiple checksum Types are not allowed.")
            }
            guard let digest = Base64.decode(text), digest.count == candidate.digestLength else {
                throw S3Error.invalidRequest("Value for \(candidate.header) header is invalid.")
            }
            (algorithm, expected) = (candidate, digest)
        }
        if let trailer = request.header("x-amz-trailer") {
            guard let named = ChecksumAlgorithm.allCases.first(where: { $0.header == trailer.lowercased() }) else {
                throw S3Error.invalidRequest("The value specified in the x-amz-trailer header is not supported")
            }
            if algorithm == nil { (algorithm, comesInTrailer) = (named, true) }
        }
        let asked = request.header("x-amz-sdk-checksum-algorithm") ?? request.header("x-amz-checksum-algorithm")
        if algorithm == nil, let asked { algorithm = ChecksumAlgorithm(rawValue: asked.uppercased()) }
    }
}
