import Basics

/// Why a store operation failed: the one error type of this layer. Keeps the facts that a user needs to report the failure to the
/// provider.
package struct ObjectStoreError: Error, Sendable, Hashable {
    package var kind: Kind
    package var operation: Operation
    package var key: ObjectKey?
    /// HTTP status; nil when no answer came.
    package var status: Int?
    /// The provider's code (`NoSuchKey`), or a short name of the local failure.
    package var code: String?
    /// One line of bounded length, whatever the store has sent.
    package var message: String
    package var requestID: String?
    /// How long the store asks to wait before a retry.
    package var retryAfter: Duration?
    /// For `.wrongRegion`: what the answer says about the right region.
    package var direction: Direction?
    /// Whether the request named a version of the object by its ID.
    package var isOfVersion = false

    package enum Direction: Sendable, Hashable {
        /// The message names the option to set.
        case named
        /// A redirect without a target.
        case missing
    }

    package init(
        _ kind: Kind, _ operation: Operation, key: ObjectKey? = nil, status: Int? = nil, code: String? = nil,
        message: String, requestID: String? = nil, retryAfter: Duration? = nil
    ) {
        (self.kind, self.operation, self.key, self.status) = (kind, operation, key, status)
        // These texts come from the store.
        (self.code, self.requestID) = (code.map(SafeText.of), requestID.map(SafeText.of))
        (self.message, self.retryAfter) = (SafeText.of(message), retryAfter)
    }

    package enum Operation: String, Sendable, Hashable {
        case list, head, get, put, copy, delete, deleteMany
        case createUpload, uploadPart, uploadPartCopy, listParts, listUploads, completeUpload, abortUpload
        case updateMetadata, presign, checkAccess
        case accessControl, setAccessControl, tags, setTags, setStorageClass, restore, move, putSymlink, symlinkTarget
        case usage, changeBucket, preflight, listBuckets
        case versions, deleteVersion
    }

    /// The cause, as far as callers act on it.
    package enum Kind: Sendable, Hashable {
        case notFound, noSuchBucket, noSuchUpload
        /// The bucket to delete still has contents.
        case bucketNotEmpty
        /// The condition of the request did not hold.
        case preconditionFailed
        case notModified
        /// Another request changes the same key at the same time; a retry may succeed.
        case conflict
        case accessDenied
        /// Unknown key or wrong signature.
        case credentialsRejected
        case credentialsExpired
        case clockSkew
        /// The bucket is in another region or at another endpoint than the request's.
        case wrongRegion
        case invalidRange
        /// Archived; readable only after a restore.
        case archived(restoring: Bool)
        case keyTooLong, metadataTooLarge, tooLarge
        /// The store does not accept a key with these bytes.
        case keyRefused
        case partRejected
        case invalidRequest
        case notSupported
        case quotaExceeded, storageFull
        case throttled
        /// 5xx, or an error document in a 200.
        case serverFault
        /// Fewer, more or other bytes than announced.
        case integrity
        /// DNS or connection: nothing was sent.
        case unreachable
        /// The answer did not come or broke off; the request may have been carried out.
        case interrupted
        case timedOut
        /// This machine has refused the server's certificate or TLS version.
        case insecure
        case cancelled
        /// This machine could not read the body or take the bytes; errno.
        case local(errno: Int32)
        /// The answer could not be parsed.
        case malformedAnswer
        /// The store refuses again and again a condition that holds by its own answer.
        case contradiction
    }

    /// Whether the object at the key has changed after the upload was begun: then no completion with a condition can succeed,
    /// though the condition may hold (Amazon S3 user guide, "How to prevent object overwrites with conditional writes").
    var isOfOvertakenUpload: Bool {
        kind == .conflict && operation == .completeUpload && code == "ConditionalRequestConflict"
    }

    /// The code of a completion that succeeded, in an answer without the version it has made.
    package static let untoldVersion = "UntoldVersion"

    /// Whether the upload is completed and its version unknown: a retry gets the same answer.
    package var isOfUntoldVersion: Bool { operation == .completeUpload && code == Self.untoldVersion }

    /// The code of a read of a version that is a delete marker.
    package static let deleteMarker = "DeleteMarker"

    /// The code of an answer that breaks the protocol and was not cut off: a retry would get the same.
    package static let unusableAnswer = "UnusableAnswer"

    /// Whether the same request can succeed when sent again.
    package var isRetryable: Bool {
        switch kind {
        case .conflict, .throttled, .serverFault, .integrity, .unreachable, .interrupted, .timedOut: true
        case .malformedAnswer: code != Self.unusableAnswer
        case .notFound, .noSuchBucket, .noSuchUpload, .bucketNotEmpty, .preconditionFailed, .notModified, .accessDenied,
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
