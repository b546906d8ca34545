import Basics
import ObjectStorage
import Synchronization

/// Keys and headers that a server accepts and does not keep unchanged.
extension FamilyStore {
    private static let lineBreak = UInt8(ascii: "\n")

    /// Checks the first object whose key is of a doubtful kind after it was made. Where the store answers 403 to these
    /// credentials instead of 404, nothing is learnt. `putAgain` repeats the write.
    func checkKept(
        _ key: ObjectKey, size: Int64, putAgain: () async throws(ObjectStoreError) -> Void
    ) async throws(ObjectStoreError) {
        guard profile.isOfAnyMaker else { return }
        let conduct = learned.withLock { $0.conduct }
        if size == 0, key.bytes.hasSuffix("/"), !conduct.keepsMarkers {
            let name = ObjectKey(ByteString(key.bytes.bytes.dropLast()))
            if let size = try await shownSize(of: name) { try await checkMarker(key, name, size, putAgain) }
        }
        if key.bytes.bytes.contains(Self.lineBreak), !conduct.keepsLineBreaks,
            let size = try await shownSize(of: key)
        {
            try await checkLineBreak(key, size)
        }
    }

    /// The outer nil: the store refuses to show it; the inner nil: no such object.
    private func shownSize(of key: ObjectKey) async throws(ObjectStoreError) -> Int64?? {
        do { return .some(try await size(of: key)) } catch {
            guard error.kind == .accessDenied else { throw error }
            return nil
        }
    }

    /// rclone serve s3 makes a file `d` of the marker `d/`, and removes it with the marker. Another client's empty file may also
    /// appear and disappear between two requests; three times in a row, it is the server.
    private func checkMarker(
        _ key: ObjectKey, _ name: ObjectKey, _ size: Int64?, _ putAgain: () async throws(ObjectStoreError) -> Void
    ) async throws(ObjectStoreError) {
        var (size, times) = (size, 1)
        while true {
            guard size == 0 else { return learned.withLock { $0.conduct.keepsMarkers = true } }
            try await delete(key, ifMatch: nil)
            // Another host's empty file is left alone, and the caller retries.
            guard try await self.size(of: name) == nil else {
                throw ObjectStoreError(
                    .conflict, .put, key: key, code: "FileBesideMarker",
                    message: "another client created a file of this name")
            }
            if times == 3 { break }
            try await putAgain()
            (size, times) = (try await self.size(of: name), times + 1)
        }
        learned.withLock { $0.capabilities.markers = false }
        note(.markerIsFile)
        throw ObjectStoreError(
            .notSupported, .put, key: key, code: "MarkerIsFile",
            message: "the store cannot keep directories: it shows the object \"name/\" as a file")
    }

    /// moto accepts such a key, and does not find it afterwards.
    private func checkLineBreak(_ key: ObjectKey, _ size: Int64?) async throws(ObjectStoreError) {
        guard size == nil else { return learned.withLock { $0.conduct.keepsLineBreaks = true } }
        try? await delete(key, ifMatch: nil)
        learned.withLock { _ = $0.capabilities.keyRules.refusedKinds.insert(.lineBreak) }
        note(.lineBreaksLost)
        throw ObjectStoreError(
            .keyRefused, .put, key: key, code: "KeyLost",
            message: "the store does not find keys with a line break")
    }

    /// nil: no such object.
    private func size(of key: ObjectKey) async throws(ObjectStoreError) -> Int64? {
        do { return try await head(key, condition: nil).version.size } catch {
            guard error.kind == .notFound else { throw error }
            return nil
        }
    }

    /// Learns that the server has stored the object, or begun an upload for it.
    func learnTaken(_ request: PutRequest, isStored: Bool = true) {
        guard profile.isOfAnyMaker else { return }
        let longest = request.metadata.user.values.map(\.utf8.count).max() ?? 0
        learned.withLock { learned in
            let key = request.key.bytes
            // The beginning of an upload does not prove that the object will be found.
            if isStored || !KeyKind.kinds(of: key).contains(.lineBreak) { learned.capabilities.keyRules.take(key) }
            learned.capabilities.longestTriedValue = max(learned.capabilities.longestTriedValue, longest)
        }
    }

    /// The error of a refused request, with its key as the cause if few servers accept that key: always where the server calls
    /// the request invalid, and for other refusals where a plain key gets another answer. A certain result is kept for the
    /// server; `isBare` means that nothing but the key can have been refused.
    func blaming(_ key: ObjectKey, for error: ObjectStoreError, isBare: Bool = false) async -> ObjectStoreError {
        guard error.status != nil, Self.isRefusal(error) else { return error }
        let kinds = KeyKind.kinds(of: key.bytes)
        let rules = capabilities.keyRules
        let isLong = kinds.isEmpty && profile.isOfAnyMaker && key.bytes.count > rules.longestTried
        guard isLong || !kinds.isEmpty else { return error }
        var blamed = error
        blamed.kind = isLong ? .keyTooLong : .keyRefused
        if !rules.allows(key.bytes) || key.bytes.count > capabilities.longestKey { return blamed }
        guard profile.isOfAnyMaker, isLong || !kinds.isDisjoint(with: rules.untried) else {
            return error.kind == .invalidRequest ? blamed : error
        }
        var isCertain = isBare && error.kind == .invalidRequest
        if !isCertain { isCertain = await isRefusedUnlikePlainKeys(key) }
        guard isCertain else { return error.kind == .invalidRequest ? blamed : error }
        learn(refused: isLong ? [] : kinds.intersection(rules.untried), key)
        return blamed
    }

    private static func isRefusal(_ error: ObjectStoreError) -> Bool {
        switch error.kind {
        case .invalidRequest, .accessDenied, .credentialsRejected, .keyTooLong: true
        default: false
        }
    }

    /// Sends two HEADs, the second for a key without an object.
    private func isRefusedUnlikePlainKeys(_ key: ObjectKey) async -> Bool {
        let directory = key.bytes.bytes.lastIndex(of: UInt8(ascii: "/")).map { key.bytes.bytes[...$0] } ?? []
        // The directory's own name may contain the doubtful bytes.
        let start = ByteString(directory)
        let plain = KeyKind.kinds(of: start).isEmpty && start.count < 256 ? start : ""
        guard await isRefused(key) else { return false }
        return await !isRefused(ObjectKey(plain + ByteString("pailfs-\(RandomID.hex())")))
    }

    private func isRefused(_ key: ObjectKey) async -> Bool {
        do throws(ObjectStoreError) { _ = try await lookOnce(at: key, condition: nil) } catch {
            return error.status != nil && Self.isRefusal(error)
        }
        return false
    }

    private func learn(refused kinds: Set<KeyKind>, _ key: ObjectKey) {
        learned.withLock { learned in
            if kinds.isEmpty {
                learned.capabilities.longestKey = min(learned.capabilities.longestKey, key.bytes.count - 1)
            } else {
                learned.capabilities.keyRules.refusedKinds.formUnion(kinds)
                learned.capabilities.keyRules.untried.subtract(kinds)
            }
        }
        if kinds.isEmpty { note(.longKeysRefused) }
        if kinds.contains(.notText) { note(.keysAreText) }
        if !kinds.isDisjoint(with: [.control, .lineBreak]) { note(.controlsRefused) }
    }

    /// Parses `Metadata value longer than 256: x-object-meta-user`.
    func learnMetadataLimit(_ error: ObjectStoreError) {
        let words = error.message.split(separator: " ")
        guard let than = words.firstIndex(of: "than"), than + 1 < words.count,
            let limit = Int(words[than + 1].filter(\.isNumber)), limit > 0
        else { return }
        learned.withLock { $0.capabilities.longestMetadataValue = limit }
        note(.metadataValues)
    }
}
