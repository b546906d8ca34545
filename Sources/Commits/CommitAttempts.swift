import ObjectStorage

/// The tries to make an object of one file, and what became of them: part of a `CommitState`, a value without I/O.
///
/// Each upload and each PUT carries an id of its own in the object's metadata, and all of them are remembered, so that one HEAD
/// shows whether a request whose answer is lost was carried out.
struct CommitAttempts: Sendable {
    typealias Attempt = CommitState.Attempt
    typealias Landed = CommitState.Landed

    private var known: [String: Attempt] = [:]
    /// A key at which a try may have made an object, with its answer lost.
    private(set) var doubtful: ObjectKey?
    private(set) var landed: Landed?
    /// The attempt of the newest upload that has become an object.
    private(set) var completed: String?
    /// The attempt in the headers of an upload that the store does not have any more: it may have made an object.
    private var lost: String?
    /// The attempt of an upload that was completed again with other parts: its object does not show which of them it has.
    private var ambiguous: String?
    /// Identities of commits of this file before this one, which may still land.
    private var ancestors: [String]

    init(ancestors: [String]) { self.ancestors = ancestors }

    /// The object's headers with the commit id.
    static func marked(_ metadata: ObjectMetadata, _ attempt: String) -> ObjectMetadata {
        var metadata = metadata
        metadata.user[CommitOptions.commitHeader] = attempt
        return metadata
    }

    subscript(_ id: String) -> Attempt? { known[id] }

    /// Whether a try may have changed the object at the key.
    func hasTried(_ key: ObjectKey) -> Bool { known.values.contains { $0.key == key } }

    /// The last attempt of an earlier process with the present bytes: the next commit first asks the store about it.
    mutating func resume(_ attempt: Attempt) {
        known[attempt.id] = attempt
        doubtful = attempt.key
    }

    /// The attempt is about to be sent.
    mutating func begin(_ attempt: Attempt) {
        if let earlier = known[attempt.id], earlier.generation != attempt.generation { ambiguous = attempt.id }
        known[attempt.id] = attempt
    }

    /// The object at the key may be one of a try whose answer is lost, or of an upload that is gone.
    mutating func doubt(_ key: ObjectKey) { doubtful = key }

    /// The store does not have the upload any more that has this attempt in its headers.
    mutating func lose(_ attempt: String) { lost = attempt }

    /// The answer came: the attempt has made the version.
    mutating func land(_ attempt: Attempt, _ version: ObjectVersion, ofUpload: Bool) {
        if ofUpload || lost == attempt.id { completed = attempt.id }
        (lost, ambiguous) = (nil, nil)
        // Only this attempt's object can still be found: with headers updated by a request whose answer was lost.
        known = [attempt.id: attempt]
        doubtful = nil
        landed = Landed(attempt: attempt, version: version, metadata: attempt.metadata)
    }

    /// A HEAD was answered. Returns the attempt that made what is there.
    mutating func recognise(_ info: ObjectInfo?, at key: ObjectKey) -> Attempt? {
        doubtful = nil
        guard let info, let id = info.metadata.user[CommitOptions.commitHeader] else { return nil }
        return known[id].map { of($0, info) } ?? ancestor(id, key, info)
    }

    /// The attempt as the object shows it. One upload may have been completed twice, and the object be that of the first time.
    private func of(_ attempt: Attempt, _ info: ObjectInfo) -> Attempt {
        guard attempt.size != info.version.size || attempt.id == ambiguous else { return attempt }
        return Attempt(
            id: attempt.id, key: attempt.key, metadata: attempt.metadata, generation: .max, size: info.version.size)
    }

    /// An attempt of an earlier commit, with other bytes than these.
    private func ancestor(_ id: String, _ key: ObjectKey, _ info: ObjectInfo) -> Attempt? {
        guard CommitOptions.isCommit(id, of: ancestors) else { return nil }
        return Attempt(id: id, key: key, metadata: info.metadata, generation: .max, size: info.version.size)
    }

    mutating func addAncestors(_ commits: [String]) { ancestors += commits }

    /// The landed version has these headers, as the store returned them, with the commit id or without.
    mutating func landedWith(_ metadata: ObjectMetadata) {
        var metadata = metadata
        metadata.user[CommitOptions.commitHeader] = nil
        if metadata.user != landed?.attempt.metadata.user { landed?.metadata = metadata }
    }

    /// The landed version has these headers now, and perhaps another ETag.
    mutating func headersUpdated(_ metadata: ObjectMetadata, _ version: ObjectVersion) {
        landed?.metadata = metadata
        landed?.version = version
    }

    /// A commit returns the landed version.
    mutating func reported() { landed?.isReported = true }

    /// The condition for the destination. The caller cannot name a landed version that no commit has returned: then it is that
    /// one.
    func condition(of request: CommitState.Request) -> WriteCondition? {
        guard let landed, !landed.isReported, landed.attempt.key == request.key, request.condition != nil else {
            return request.condition
        }
        return .match(landed.version.etag)
    }
}
