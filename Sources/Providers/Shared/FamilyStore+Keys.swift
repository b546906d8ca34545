import Basics
import ObjectStorage
import Synchronization

/// Keys and headers that a server takes and does not keep as they are.
extension FamilyStore {
    private static let lineBreak = UInt8(ascii: "\n")

    /// The first key of each doubtful kind is looked for after it was made. Where the store answers 403 to these credentials
    /// instead of 404, nothing shows. `putAgain` stores what was stored.
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

    /// nil where the store refuses to show it; else nil inside: no such object.
    private func shownSize(of key: ObjectKey) async throws(ObjectStoreError) -> Int64?? {
        do { return .some(try await size(of: key)) } catch {
            guard error.kind == .accessDenied else { throw error }
            return nil
        }
    }

    /// rclone serve s3 makes a file `d` of the marker `d/`, and removes that with it. Another client's empty file may come and go
    /// between two requests as well; three times in a row it is the server that makes it.
    private func checkMarker(
        _ key: ObjectKey, _ name: ObjectKey, _ size: Int64?, _ putAgain: () async throws(ObjectStoreError) -> Void
    ) async throws(ObjectStoreError) {
        var (size, times) = (size, 1)
        while true {
            guard size == 0 else { return learned.withLock { $0.conduct.keepsMarkers = true } }
            try await delete(key, ifMatch: nil)
            // Another host's empty file stays where it is, and the caller tries again.
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

    /// moto takes such a key, and does not know it afterwards.
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

    /// The server has stored what was sent, or begun an upload of it.
    func learnTaken(_ request: PutRequest, isStored: Bool = true) {
        guard profile.isOfAnyMaker else { return }
        let longest = request.metadata.user.values.map(\.utf8.count).max() ?? 0
        learned.withLock { learned in
            let key = request.key.bytes
            // What was begun need not be found again.
            if isStored || !KeyKind.kinds(of: key).contains(.lineBreak) { learned.capabilities.keyRules.take(key) }
            learned.capabilities.longestTriedValue = max(learned.capabilities.longestTriedValue, longest)
        }
    }

    /// A key that few servers take is what a refused request is refused for: always where the server says that the request is
    /// invalid, and for other words of refusal where it answers otherwise to a plain key. What was seen for certain is kept for
    /// the server: `isBare` says that nothing but the key can have been refused.
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

    /// Two HEADs, of which the second is for a key of which there is no object.
    private func isRefusedUnlikePlainKeys(_ key: ObjectKey) async -> Bool {
        let directory = key.bytes.bytes.lastIndex(of: UInt8(ascii: "/")).map { key.bytes.bytes[...$0] } ?? []
        // The directory may have the doubtful bytes.
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

    /// `Metadata value longer than 256: x-object-meta-user`.
    func learnMetadataLimit(_ error: ObjectStoreError) {
        let words = error.message.split(separator: " ")
        guard let than = words.firstIndex(of: "than"), than + 1 < words.count,
            let limit = Int(words[than + 1].filter(\.isNumber)), limit > 0
        else { return }
        learned.withLock { $0.capabilities.longestMetadataValue = limit }
        note(.metadataValues)
    }
}
