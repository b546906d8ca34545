import Basics
import Digests
import NIOCore

/// Bytes of an upload on their way to the disk, with every digest Kodo speaks of.
struct KodoReceiver {
    let writer: ContentWriter
    private(set) var md5 = MD5()
    private(set) var crc32 = CRC32()
    private(set) var hash = QETag()

    init(into bucket: Bucket) { writer = bucket.newContent() }

    mutating func take(_ chunk: ByteBuffer) throws(KodoError) {
        let bytes = chunk.readableBytesSpan
        md5.update(bytes)
        crc32.update(bytes)
        hash.update(bytes)
        do { try writer.write(bytes) } catch { throw KodoError(error) }
    }

    /// All of a request's body.
    mutating func take(_ body: RequestBody, length: Int64?) async throws(KodoError) {
        while true {
            let chunk: ByteBuffer?
            do { chunk = try await body.next() } catch { throw .incompleteBody }
            guard let chunk else { break }
            try take(chunk)
        }
        guard length == nil || length == writer.size else { throw .incompleteBody }
    }

    func finish() throws(KodoError) -> Content {
        let content = try KodoError.storing { () throws(StorageError) in try writer.finish() }
        KodoObjects.remember(hash.finish(), of: content)
        return content
    }
}

/// What an upload says of the object it makes, by any of the three ways.
struct KodoUploadRequest {
    /// nil lets the server choose.
    var key: ByteString?
    var fileName = ""
    var mimeType: String?
    /// `x-qn-meta-*`
    var metadata: [Field] = []
    /// `x:*`
    var variables: [Field] = []
    /// Headers in lower case.
    var headers: [Field] = []
    /// A v1 upload, whose `mkfile` replaces what others do not.
    var isByBlocks = false
}

extension KodoDialect {
    /// Checks everything about a finished upload, stores it with `commit`, and answers as the policy wants.
    ///
    /// `hash` is what the object's hash will be. The policy's deadline counts now, at the end (Kodo API, upload policy).
    func store(
        _ upload: KodoUploadRequest, _ policy: PutPolicy, size: Int64, hash: String,
        commit: (ByteString, ObjectDescription, WriteCondition) throws(StorageError) -> Void
    ) throws(KodoError) -> ServerResponse {
        try authenticator.checkDeadline(policy)
        let bucket = try bucket(policy.bucket)
        guard policy.hasValidCallback else { throw .invalid("invalid callbackBody or callbackBodyType") }
        guard size >= policy.fsizeMin ?? 0 else { throw KodoError(403, "the file is too small") }
        guard size <= policy.fsizeLimit ?? .max else { throw KodoError(413, "request entity too large") }
        let name = upload.key?.description ?? upload.fileName
        let mimeType = policy.mimeType(saying: upload.mimeType, name: name)
        guard policy.admits(mimeType: mimeType) else {
            throw KodoError(403, "limited mimeType: this file type is forbidden to upload")
        }
        var variables: [String: JSONValue] = [
            "bucket": .string(bucket.name), "etag": .string(hash), "hash": .string(hash), "fsize": .number(size),
            "fname": .string(upload.fileName), "mimeType": .string(mimeType), "endUser": .string(policy.endUser ?? ""),
        ]
        for field in upload.variables { variables[field.name] = .string(field.value) }
        let key = chooseKey(upload, policy, hash: hash, variables)
        variables["key"] = .string(key.description)
        guard policy.admits(key) else { throw .outOfScope }
        try checkKey(key)
        let description = try describe(upload, policy, mimeType: mimeType)
        try commitUnlessThere(
            key, in: bucket, hash: hash, mayOverwrite: policy.mayOverwrite(byBlocks: upload.isByBlocks)
        ) { condition throws(StorageError) in
            try commit(key, description, condition)
        }
        // No address is ever called from here; a fault can have the server answer with the body that it would get.
        if policy.hasCallback {
            guard Departures.current.answersCallbacks else {
                throw KodoError(579, "callback failed: pailstore calls no address")
            }
            let body = KodoTemplate(text: policy.callbackBody ?? "").plain { variables[$0] }
            return Self.json(["body": .string(body)])
        }
        var response = Self.json(["hash": .string(hash), "key": .string(key.description)])
        if let template = policy.returnBody, !template.isEmpty {
            response.body = .bytes(Array(KodoTemplate(text: template).json { variables[$0] }.utf8))
        }
        response.key = key
        return response
    }

    private func chooseKey(
        _ upload: KodoUploadRequest, _ policy: PutPolicy, hash: String, _ variables: [String: JSONValue]
    ) -> ByteString {
        let saved = policy.saveKey.flatMap { $0.isEmpty ? nil : $0 }
            .map { template in ByteString(KodoTemplate(text: template).plain { variables[$0] }) }
        if let saved, policy.forceSaveKey == true { return saved }
        return upload.key ?? saved ?? ByteString(hash)
    }

    private func describe(
        _ upload: KodoUploadRequest, _ policy: PutPolicy, mimeType: String
    ) throws(KodoError) -> ObjectDescription {
        var description = ObjectDescription()
        KodoObjects.setHeader("content-type", mimeType, in: &description)
        for header in upload.headers { KodoObjects.setHeader(header.name, header.value, in: &description) }
        for field in upload.metadata { try KodoObjects.set(field.name, field.value, in: &description) }
        try KodoObjects.checkBudget(description)
        guard let storageClass = KodoObjects.storageClass(policy.fileType ?? 0) else {
            throw .invalid("invalid fileType")
        }
        description.storageClass = storageClass
        if let days = policy.deleteAfterDays, days > 0 {
            description.properties.append(Field(KodoObjects.Property.expiration, time(afterDays: days)))
        }
        if let user = policy.endUser, !user.isEmpty {
            description.properties.append(Field(KodoObjects.Property.endUser, user))
        }
        return description
    }

    /// Where nothing may be replaced, the same content again is no failure, and changes nothing.
    private func commitUnlessThere(
        _ key: ByteString, in bucket: Bucket, hash: String, mayOverwrite: Bool,
        _ commit: (WriteCondition) throws(StorageError) -> Void
    ) throws(KodoError) {
        var condition = WriteCondition()
        condition.mustBeAbsent = !mayOverwrite
        while true {
            if condition.mustBeAbsent, let current = try? object(key, in: bucket) {
                guard try self.hash(of: current) == hash else { throw .exists }
                return
            }
            do { return try commit(condition) } catch {
                // Somebody else's object came in between: look at it.
                guard error == .conditionFailed else { throw KodoError(error) }
            }
        }
    }

    // MARK: A form

    private static let formHeaders = [
        "cacheControl": "cache-control", "contentLanguage": "content-language", "contentEncoding": "content-encoding",
        "contentDisposition": "content-disposition", "expires": "expires",
    ]

    func uploadForm(_ call: KodoCall) async throws(KodoError) -> ServerResponse {
        guard call.request.method == "POST" else { throw .notAllowed }
        guard var reader = FormDataReader(contentType: call.request.header("content-type") ?? "") else {
            throw .invalid("the body is no multipart/form-data with a boundary")
        }
        var form = KodoForm()
        var (part, value): (FormDataReader.Part?, [UInt8]) = (nil, [])
        var receiver: KodoReceiver?
        reading: while true {
            guard let event = try reader.next() else {
                let chunk: ByteBuffer?
                do { chunk = try await call.body.next() } catch { throw .incompleteBody }
                guard let chunk else { throw .incompleteBody }
                reader.feed(chunk)
                continue
            }
            switch event {
            case .part(let next):
                (part, value) = (next, [])
                guard next.name == "file", receiver == nil else { continue }
                // The SDKs send the file last, so that a bad token is known before its bytes.
                let policy = try form.policy(authenticator)
                receiver = KodoReceiver(into: try bucket(policy.bucket))
            case .data(let data):
                if part?.name == "file" {
                    try receiver?.take(data)
                } else {
                    value += data.readableBytesView
                    guard value.count <= Self.largestDocument else { throw .invalid("a form field is too long") }
                }
            case .partEnd: if let part { form.take(part, value) }
            case .end: break reading
            }
        }
        guard let receiver else { throw .invalid("file is not specified in multipart") }
        if let text = form.crc32 {
            guard let expected = UInt32(text) else { throw .invalid("invalid crc32") }
            guard expected == receiver.crc32.value else { throw KodoError(406, "crc32 mismatch") }
        }
        var upload = form.upload
        upload.headers = form.fields.compactMap { field in
            Self.formHeaders[field.name].map { Field($0, field.value) }
        }
        let etag = Hex.encode(receiver.md5.finish())
        let content = try receiver.finish()
        return try store(
            upload, form.policy(authenticator), size: content.size, hash: QETag.text(receiver.hash.finish())
        ) { key, description, condition throws(StorageError) in
            try put(content, as: key, etag: etag, description, condition, policyBucket: form.policy?.bucket ?? "")
        }
    }

    func put(
        _ content: Content, as key: ByteString, etag: String, _ description: ObjectDescription,
        _ condition: WriteCondition, policyBucket: String
    ) throws(StorageError) {
        let record = ObjectRecord(
            key: key, size: content.size, etag: etag, modified: options.time.now(), description: description)
        _ = try library.bucket(policyBucket).put(record, content: content, if: condition)
    }
}

/// The fields of an upload form (Kodo API, form upload).
private struct KodoForm {
    var fields: [Field] = []
    var upload = KodoUploadRequest()
    var crc32: String?
    private var token: String?
    private(set) var policy: PutPolicy?

    /// The policy of the token, once its signature was found right.
    mutating func policy(_ authenticator: KodoAuthenticator) throws(KodoError) -> PutPolicy {
        if let policy { return policy }
        guard let token else { throw .noToken }
        let checked = try authenticator.policy(ofUploadToken: token)
        policy = checked
        return checked
    }

    mutating func take(_ part: FormDataReader.Part, _ value: [UInt8]) {
        let text = String(decoding: value, as: UTF8.self)
        switch part.name {
        case "token": token = text
        case "key": upload.key = ByteString(value)
        case "crc32": crc32 = text
        case "file":
            upload.fileName = part.fileName ?? ""
            upload.mimeType = part.contentType
        case let name where name.hasPrefix("x:"): upload.variables.append(Field(name, text))
        case let name where name.lowercased().hasPrefix(KodoObjects.metadataPrefix):
            upload.metadata.append(Field(name, text))
        default: fields.append(Field(part.name, text))
        }
    }
}
