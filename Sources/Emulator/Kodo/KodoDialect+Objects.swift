import Basics
import Digests

/// Operations on single objects, alone or in a batch (Kodo API, resource management).
extension KodoDialect {
    private static let mostBatched = 1000

    /// Does what `target` says; the answer's document, if it has one.
    func perform(_ target: KodoTarget) throws(KodoError) -> JSONValue? {
        guard target.isValid else { throw .invalid("invalid entry") }
        let bucket = try bucket(target.entry.bucket)
        switch target.operation {
        case .stat: return try stat(target, bucket)
        case .copy, .move: try transfer(target, bucket)
        case .delete: try delete(target.entry.key, in: bucket)
        case .chgm: try changeMetadata(target, bucket)
        case .chtype: try changeType(target, bucket)
        case .restoreAr: try restore(target, bucket)
        case .deleteAfterDays: try expire(target, bucket)
        case .lifecycle: try setLifecycle(target, bucket)
        case .chstatus: try changeStatus(target, bucket)
        default: throw .notServed
        }
        return nil
    }

    /// The form names one operation after another; 298 tells that some failed.
    func batch(_ body: [UInt8]) throws(KodoError) -> ServerResponse {
        let operations = ServerRequest.parse(Substring(decoding: body, as: UTF8.self)).filter { $0.name == "op" }
        guard !operations.isEmpty, operations.count <= Self.mostBatched else {
            throw .invalid("a batch has 1 to \(Self.mostBatched) operations")
        }
        var failed = false
        var answers: [JSONValue] = []
        for operation in operations {
            let text = operation.value.description
            let target = KodoTarget(path: text.hasPrefix("/") ? text : "/\(text)", method: "POST")
            do throws(KodoError) {
                guard target.operation.mayBeBatched else { throw .invalid("invalid operation") }
                let data = try perform(target)
                answers.append(data.map { ["code": 200, "data": $0] } ?? ["code": 200])
            } catch {
                failed = true
                answers.append(["code": .number(Int64(error.status)), "data": ["error": .string(error.message)]])
            }
        }
        return Self.json(.array(answers), status: failed ? 298 : 200)
    }

    /// An object; one whose days are over is gone.
    func object(_ key: ByteString, in bucket: Bucket) throws(KodoError) -> StoredObject {
        let object = try KodoError.storing { () throws(StorageError) in try bucket.object(key) }
        guard KodoObjects.isExpired(object.record, at: options.time.now()) else { return object }
        _ = try? bucket.delete(key, now: options.time.now())
        throw .noSuchFile
    }

    func hash(of object: StoredObject) throws(KodoError) -> String {
        try KodoError.storing { () throws(StorageError) in try KodoObjects.hash(of: object) }
    }

    private func delete(_ key: ByteString, in bucket: Bucket) throws(KodoError) {
        _ = try object(key, in: bucket)
        let removed = try KodoError.storing { () throws(StorageError) in try bucket.delete(key, now: options.time.now())
        }
        guard removed != nil else { throw .noSuchFile }
    }

    // MARK: Reading

    private func stat(_ target: KodoTarget, _ bucket: Bucket) throws(KodoError) -> JSONValue {
        let object = try object(target.entry.key, in: bucket)
        let record = object.record
        var fields = try describe(object)
        if let restoration = record.restoration, record.description.storageClass.isFrozen {
            let now = options.time.now()
            if restoration.ready > now {
                fields.append(("restoreStatus", 1))
            } else if restoration.isThere(now) {
                fields.append(("restoreStatus", 2))
            }
        }
        for property in record.description.properties {
            guard let name = Self.times[property.name], let seconds = Int64(property.value) else { continue }
            fields.append((name, .number(seconds)))
        }
        let metadata = KodoObjects.metadata(of: record.description)
        if !metadata.isEmpty {
            fields.append(("x-qn-meta", .object(metadata.map { ($0.name, .string($0.value)) })))
        }
        return .object(fields)
    }

    /// The same with the sizes of the parts.
    func statWithParts(_ target: KodoTarget) throws(KodoError) -> JSONValue {
        let bucket = try bucket(target.entry.bucket)
        guard case .object(var fields) = try stat(target, bucket) else { return .null }
        let record = try object(target.entry.key, in: bucket).record
        let sizes = record.parts.isEmpty ? Self.blockSizes(of: record.size) : record.parts.map(\.size)
        fields.append(("parts", .array(sizes.map { .number($0) })))
        return .object(fields)
    }

    private static func blockSizes(of size: Int64) -> [Int64] {
        stride(from: 0, to: size, by: Int(QETag.blockSize)).map { min(QETag.blockSize, size - $0) }
    }

    /// What listings tell too (Kodo API, stat).
    func describe(_ object: StoredObject) throws(KodoError) -> [(name: String, value: JSONValue)] {
        let record = object.record
        var fields: [(name: String, value: JSONValue)] = [
            ("fsize", .number(record.size)), ("hash", .string(try hash(of: object))),
            ("mimeType", .string(KodoObjects.mimeType(of: record))),
            ("type", .number(KodoObjects.type(of: record.description.storageClass))),
            ("putTime", .number(record.modified.putTime)),
            ("endUser", .string(KodoObjects.property(KodoObjects.Property.endUser, of: record) ?? "")),
        ]
        if record.etag.utf8.count == 32 { fields.append(("md5", .string(record.etag))) }
        if KodoObjects.isDisabled(record) { fields.append(("status", 1)) }
        return fields
    }

    // MARK: Copying

    private func transfer(_ target: KodoTarget, _ bucket: Bucket) throws(KodoError) {
        let words = target.arguments
        guard let destination = words.first.flatMap({ KodoEntry(encoded: $0) }), words.count == 1 || words.count == 3,
            words.count == 1 || words[1] == "force" && ["true", "false"].contains(words[2])
        else { throw .invalid("invalid destination") }
        try checkKey(destination.key)
        let source = try object(target.entry.key, in: bucket)
        let goal = try self.bucket(destination.bucket)
        let isForced = words.last == "true" && words.count == 3
        guard destination != target.entry else {
            guard isForced else { throw .exists }
            return
        }
        var condition = WriteCondition()
        condition.mustBeAbsent = !isForced
        let digest = try hash(of: source)
        // Replacing an expired object replaces nothing.
        if condition.mustBeAbsent { _ = try? object(destination.key, in: goal) }
        let now = options.time.now()
        try KodoError.storing { () throws(StorageError) in
            let content = try goal.duplicate(source.content, range: 0..<source.record.size)
            if let digest = Base64.decode(digest, alphabet: .urlSafe) { KodoObjects.remember(digest, of: content) }
            let isMove = target.operation == .move
            var record = ObjectRecord(
                key: destination.key, size: source.record.size, etag: source.record.etag,
                modified: isMove ? source.record.modified : now, description: source.record.description,
                checksum: source.record.checksum, crc64: source.record.crc64, kind: source.record.kind,
                parts: source.record.parts)
            if isMove { record.restoration = source.record.restoration }
            if isMove, goal === bucket {
                _ = try goal.move(source, to: record, content: content, if: condition)
            } else {
                _ = try goal.put(record, content: content, if: condition)
                if isMove { try bucket.delete(target.entry.key, now: now) }
            }
        }
    }

    func checkKey(_ key: ByteString) throws(KodoError) {
        guard key.count <= Self.longestKey else {
            throw .invalid("the key has \(key.count) bytes, at most \(Self.longestKey) are allowed")
        }
        guard String(validating: key.bytes, as: UTF8.self) != nil else { throw .invalid("the key is not UTF-8") }
    }

    // MARK: Changing

    private func change(
        _ object: StoredObject, in bucket: Bucket, _ change: (inout ObjectRecord) -> Void
    ) throws(KodoError) {
        do { _ = try bucket.update(object, change) } catch {
            throw error == .conditionFailed ? .modified : KodoError(error)
        }
    }

    /// `hash=…&mime=…&fsize=…&putTime=…`, any of them.
    private func check(condition text: ByteString, _ object: StoredObject) throws(KodoError) {
        for item in text.description.split(separator: "&") {
            let halves = item.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
            let actual: String? =
                switch halves[0] {
                case "hash": try hash(of: object)
                case "mime": KodoObjects.mimeType(of: object.record)
                case "fsize": String(object.record.size)
                case "putTime": String(object.record.modified.putTime)
                default: nil
                }
            guard let actual, halves.count == 2 else { throw .invalid("invalid cond") }
            guard actual == halves[1] else { throw .modified }
        }
    }

    private func changeMetadata(_ target: KodoTarget, _ bucket: Bucket) throws(KodoError) {
        guard let pairs = KodoTarget.pairs(target.arguments), !pairs.isEmpty else {
            throw .invalid("invalid arguments")
        }
        let object = try object(target.entry.key, in: bucket)
        var description = object.record.description
        for (name, value) in pairs {
            switch name {
            case "mime": KodoObjects.setHeader("content-type", value.description, in: &description)
            case "cond": try check(condition: value, object)
            case _ where name.lowercased().hasPrefix(KodoObjects.metadataPrefix):
                try KodoObjects.set(name, value.description, in: &description)
            default: throw .invalid("invalid argument \(name)")
            }
        }
        try KodoObjects.checkBudget(description)
        try change(object, in: bucket) { $0.description = description }
    }

    private func changeType(_ target: KodoTarget, _ bucket: Bucket) throws(KodoError) {
        let words = target.arguments
        guard words.count == 2, words[0] == "type", let storageClass = Int(words[1]).flatMap(KodoObjects.storageClass)
        else {
            throw .invalid("invalid file type")
        }
        let object = try object(target.entry.key, in: bucket)
        guard KodoObjects.isReadable(object.record, at: options.time.now()) else {
            throw KodoError(403, "the archived object must be restored first")
        }
        try change(object, in: bucket) { record in
            record.description.storageClass = storageClass
            record.restoration = nil
        }
    }

    private func restore(_ target: KodoTarget, _ bucket: Bucket) throws(KodoError) {
        let words = target.arguments
        guard words.count == 2, words[0] == "freezeAfterDays", let days = Int64(words[1]), (1...7).contains(days) else {
            throw .invalid("freezeAfterDays must be between 1 and 7")
        }
        let object = try object(target.entry.key, in: bucket)
        guard object.record.description.storageClass.isFrozen else { throw .invalid("the object is not archived") }
        let now = options.time.now()
        let ready = KodoObjects.isReadable(object.record, at: now) ? now : now + options.restoreDelay
        try change(object, in: bucket) {
            $0.restoration = Restoration(ready: ready, expires: ready + .seconds(days * 86400))
        }
    }

    private func changeStatus(_ target: KodoTarget, _ bucket: Bucket) throws(KodoError) {
        let words = target.arguments
        guard words.count >= 2, words[0] == "status", ["0", "1"].contains(words[1]),
            let pairs = KodoTarget.pairs(words.dropFirst(2)), pairs.allSatisfy({ $0.name == "cond" })
        else { throw .invalid("invalid status") }
        let object = try object(target.entry.key, in: bucket)
        for pair in pairs { try check(condition: pair.value, object) }
        try change(object, in: bucket) {
            KodoObjects.set(KodoObjects.Property.status, to: words[1] == "1" ? "1" : nil, in: &$0)
        }
    }

    // MARK: Days

    /// The properties that hold a time in seconds, and how stat calls them.
    private static let times = [
        KodoObjects.Property.expiration: "expiration", "kodo-to-ia": "transitionToIA",
        "kodo-to-archive-ir": "transitionToArchiveIR", "kodo-to-archive": "transitionToARCHIVE",
        "kodo-to-deep-archive": "transitionToDeepArchive",
    ]
    private static let rules = [
        "toIAAfterDays": "kodo-to-ia", "toArchiveIRAfterDays": "kodo-to-archive-ir",
        "toArchiveAfterDays": "kodo-to-archive", "toDeepArchiveAfterDays": "kodo-to-deep-archive",
        "deleteAfterDays": KodoObjects.Property.expiration,
    ]

    func time(afterDays days: Int64) -> String { String(options.time.now().seconds + days * 86400) }

    private func expire(_ target: KodoTarget, _ bucket: Bucket) throws(KodoError) {
        guard target.arguments.count == 1, let days = Int64(target.arguments[0]), (0...100_000).contains(days) else {
            throw .invalid("invalid days")
        }
        let object = try object(target.entry.key, in: bucket)
        let end = days == 0 ? nil : time(afterDays: days)
        try change(object, in: bucket) { KodoObjects.set(KodoObjects.Property.expiration, to: end, in: &$0) }
    }

    /// Pairs of a rule and its days: 0 leaves it, -1 cancels it.
    private func setLifecycle(_ target: KodoTarget, _ bucket: Bucket) throws(KodoError) {
        let object = try object(target.entry.key, in: bucket)
        var (changes, rest): ([(String, String?)], ArraySlice<Substring>) = ([], target.arguments[...])
        while let name = rest.popFirst() {
            guard let value = rest.popFirst() else { throw .invalid("invalid arguments") }
            if name == "cond" {
                guard let text = Base64.decode(value, alphabet: .urlSafe) else { throw .invalid("invalid cond") }
                try check(condition: ByteString(text), object)
            } else if let property = Self.rules[String(name)], let days = Int64(value), (-1...100_000).contains(days) {
                if days != 0 { changes.append((property, days < 0 ? nil : time(afterDays: days))) }
            } else {
                throw .invalid("invalid argument \(name)")
            }
        }
        try change(object, in: bucket) { record in
            for (property, value) in changes { KodoObjects.set(property, to: value, in: &record) }
        }
    }
}
