import Basics

/// A request to a dialect of the family of S3 on its way through an operation.
protocol FamilyCall {
    var request: ServerRequest { get }
    var target: RequestTarget { get }
}

extension FamilyCall {
    var key: ByteString { target.key }
}

/// What the dialects that follow S3's pattern share: S3, OSS and COS. Buckets stand in the path or the host, uploads in
/// `uploadId`; what differs between them are words.
protocol FamilyDialect: Dialect {
    associatedtype Spelling: ErrorSpelling
    associatedtype Call: FamilyCall

    var library: ObjectLibrary { get }
    /// A part number that is none or outside of 1 to 10000.
    static func badPartNumber(_ text: String?) -> AnswerError<Spelling>
    /// A bucket whose CORS rules were never set.
    static var noCORS: AnswerError<Spelling> { get }
    /// Tags that may be set.
    static func checked(tags: [Field]) throws(AnswerError<Spelling>) -> [Field]
    /// The prefix of the provider's headers: `x-amz-`.
    static var headerPrefix: String { get }
    /// A version that the key does not have.
    static var noSuchVersion: AnswerError<Spelling> { get }
    /// Whether a delete marker that is named by its version is missing like a key, and not a method that is not allowed.
    static var missesMarkers: Bool { get }
    func xml(_ root: String, _ children: (inout XMLWriter) -> Void) -> ServerResponse
    /// The object a call names, with its bucket.
    func object(_ call: Call) throws(AnswerError<Spelling>) -> (Bucket, StoredObject)
}

extension FamilyDialect {
    typealias Failure = AnswerError<Spelling>

    /// The most parts one upload has.
    static var mostParts: Int { 10_000 }

    static var missesMarkers: Bool { false }

    func bucket(_ call: Call) throws(Failure) -> Bucket {
        try Failure.storing { () throws(StorageError) in try library.bucket(call.target.bucket) }
    }

    func deleteBucket(_ call: Call) throws(Failure) -> ServerResponse {
        try Failure.storing { () throws(StorageError) in try library.deleteBucket(call.target.bucket) }
        return ServerResponse(status: 204)
    }

    /// The upload that a request names.
    func upload(_ call: Call, in bucket: Bucket) throws(Failure) -> Upload {
        try Failure.storing { () throws(StorageError) in
            try bucket.upload(call.request.parameter("uploadId") ?? "", of: call.key)
        }
    }

    /// The upload and part number that a part's request names.
    func uploadAndNumber(
        _ call: Call, in bucket: Bucket
    ) throws(Failure) -> (Upload, Int) {
        let text = call.request.parameter("partNumber")
        guard let number = text.flatMap({ Int($0) }), (1...Self.mostParts).contains(number) else {
            throw Self.badPartNumber(text)
        }
        return (try upload(call, in: bucket), number)
    }

    func abortUpload(_ call: Call) throws(Failure) -> ServerResponse {
        let bucket = try bucket(call)
        let upload = try upload(call, in: bucket)
        try Failure.storing { () throws(StorageError) in try bucket.abort(upload) }
        return ServerResponse(status: 204)
    }

    /// The parts that a completion names.
    static func chosenParts(_ root: XMLElement) throws(Failure) -> [ChosenPart] {
        var chosen: [ChosenPart] = []
        for element in root.all("Part") {
            guard let part = ChosenPart(element) else { throw .malformedXML }
            chosen.append(part)
        }
        guard (1...mostParts).contains(chosen.count) else { throw .malformedXML }
        return chosen
    }

    /// Changes what is said of an object, or of the one that took its place meanwhile.
    func change(
        _ object: StoredObject, in bucket: Bucket, _ change: (inout ObjectRecord) -> Void
    ) throws(Failure) {
        var current = object
        while true {
            do {
                _ = try bucket.update(current, change)
                return
            } catch .conditionFailed {
                let named = current
                current = try Failure.storing { () throws(StorageError) in
                    guard let found = bucket.version(named.versionID, of: named.record.key) else { throw .noSuchKey }
                    return found
                }
            } catch { throw Failure(error) }
        }
    }
}

/// Tags, and rules for pages of other origins.
extension FamilyDialect {
    func setObjectTagging(_ call: Call, _ document: [UInt8]) throws(Failure) -> ServerResponse {
        let (bucket, object) = try object(call)
        guard let tags = Tagging.read(document: document) else { throw .malformedXML }
        let checked = try Self.checked(tags: tags)
        try change(object, in: bucket) { $0.description.tags = checked }
        return ServerResponse(status: 200)
    }

    func deleteObjectTagging(_ call: Call) throws(Failure) -> ServerResponse {
        let (bucket, object) = try object(call)
        try change(object, in: bucket) { $0.description.tags = [] }
        return ServerResponse(status: 204)
    }

    func bucketCORS(_ call: Call) throws(Failure) -> ServerResponse {
        let rules = try bucket(call).record.cors
        guard !rules.isEmpty else { throw Self.noCORS }
        return xml("CORSConfiguration") { CORSAnswers.write(rules, &$0) }
    }

    func setBucketCORS(_ call: Call, _ document: [UInt8]) throws(Failure) -> ServerResponse {
        let bucket = try bucket(call)
        guard let rules = CORSAnswers.read(document: document) else { throw .malformedXML }
        try Failure.storing { () throws(StorageError) in try bucket.setCORS(rules) }
        return ServerResponse(status: 200)
    }

    func deleteBucketCORS(_ call: Call) throws(Failure) -> ServerResponse {
        let bucket = try bucket(call)
        try Failure.storing { () throws(StorageError) in try bucket.setCORS([]) }
        return ServerResponse(status: 204)
    }

    func preflight(_ call: Call) throws(Failure) -> ServerResponse {
        guard let answer = CORSAnswers.preflight(call.request, try bucket(call).record.cors) else {
            throw Failure(403, "AccessForbidden", "CORSResponse: This CORS request is not allowed.")
        }
        return answer
    }
}
