import Basics

/// Why a store operation failed: the one error type of this layer. Keeps what a person needs to ask the provider.
package struct ObjectStoreError: Error, Sendable, Hashable {
    package var kind: Kind
    package var operation: Operation
    package var key: ObjectKey?
    /// HTTP status; nil when no answer came.
    package var status: Int?
    /// The provider's code (`NoSuchKey`), or a short name of the local failure.
    package var code: String?
    /// On one line, and of bounded length, whatever the store answered.
    package var message: String
    package var requestID: String?
    /// How long the store asks to wait before a retry.
    package var retryAfter: Duration?
    /// Of `.wrongRegion`: what the answer says of the right place.
    package var direction: Direction?

    package enum Direction: Sendable, Hashable {
        /// The message has the option to set.
        case named
        /// A redirect that leads nowhere.
        case missing
    }

    package init(
        _ kind: Kind, _ operation: Operation, key: ObjectKey? = nil, status: Int? = nil, code: String? = nil,
        message: String, requestID: String? = nil, retryAfter: Duration? = nil
    ) {
        (self.kind, self.operation, self.key, self.status) = (kind, operation, key, status)
        // The store's own texts.
        (self.code, self.requestID) = (code.map(SafeText.of), requestID.map(SafeText.of))
        (self.message, self.retryAfter) = (SafeText.of(message), retryAfter)
    }

    package enum Operation: String, Sendable, Hashable {
        case list, head, get, put, copy, delete, deleteMany
        case createUpload, uploadPart, uploadPartCopy, listParts, listUploads, completeUpload, abortUpload
        case updateMetadata, presign, checkAccess
        case accessControl, setAccessControl, tags, setTags, setStorageClass, restore, move, putSymlink, symlinkTarget
        case usage, preflight, listBuckets
    }

    /// What went wrong, as far as callers act on it.
    package enum Kind: Sendable, Hashable {
        case notFound, noSuchBucket, noSuchUpload
        /// The condition of the request did not hold.
        case preconditionFailed
        case notModified
        /// Another request on the same key at the same time; try again.
        case conflict
        case accessDenied
        /// Unknown key or wrong signature.
        case credentialsRejected
        case credentialsExpired
        case clockSkew
        /// The bucket lives in another region or endpoint than asked.
        case wrongRegion
        case invalidRange
        /// Archived; readable only after a restore.
        case archived(restoring: Bool)
        case keyTooLong, metadataTooLarge, tooLarge
        /// The store takes no key with these bytes.
        case keyRefused
        case partRejected
        case invalidRequest
        case notSupported
        case quotaExceeded, storageFull
        case throttled
        /// 5xx, or an error document in a 200.
        case serverFault
        /// Bytes shorter, longer or other than promised.
        case integrity
        /// DNS or connection: nothing was sent.
        case unreachable
        /// The answer did not come or broke off; the request may have been carried out.
        case interrupted
        case timedOut
        /// The server's certificate or TLS version was refused.
        case insecure
        case cancelled
        /// This machine could not read the body or take the bytes; errno.
        case local(errno: Int32)
        /// The answer could not be understood.
        case malformedAnswer
        /// The store refuses, again and again, what it says itself to hold.
        case contradiction
    }

    /// The key changed after the upload was begun: under a condition no upload begun before that can be completed, though the
    /// condition may hold (Amazon S3 user guide, "How to prevent object overwrites with conditional writes").
    var isOfOvertakenUpload: Bool {
        kind == .conflict && operation == .completeUpload && code == "ConditionalRequestConflict"
    }

    /// The code of a completion that the store has carried out without telling what it made.
    package static let untoldVersion = "UntoldVersion"

    /// The upload is completed, and nobody knows which version it is: asked again, the store says the same.
    package var isOfUntoldVersion: Bool { operation == .completeUpload && code == Self.untoldVersion }

    /// The code of an answer that would be as wrong the next time: it did not break off, and breaks the protocol.
    package static let unusableAnswer = "UnusableAnswer"

    /// Whether the same request can succeed when sent again.
    package var isRetryable: Bool {
        switch kind {
        case .conflict, .throttled, .serverFault, .integrity, .unreachable, .interrupted, .timedOut: true
        case .malformedAnswer: code != Self.unusableAnswer
        case .notFound, .noSuchBucket, .noSuchUpload, .preconditionFailed, .notModified, .accessDenied,
            .credentialsRejected, .credentialsExpired, .clockSkew, .wrongRegion, .invalidRange, .archived, .keyTooLong,
            .keyRefused, .metadataTooLarge, .tooLarge, .partRejected, .invalidRequest, .notSupported, .quotaExceeded,
            .storageFull,
            .insecure, .cancelled, .local, .contradiction:
            false
        }
    }
}

extension ObjectStoreError: CustomStringConvertible {
    package var description: String {
        var text = "\(operation.rawValue)"
        if let key { text += " \(SafeText.of(key.description))" }
        text += ": \(message)"
        let details = [status.map { "HTTP \($0)" }, code, requestID.map { "request \($0)" }].compactMap(\.self)
        if !details.isEmpty { text += " (\(details.joined(separator: ", ")))" }
        return text
    }
}
