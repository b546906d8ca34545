import HTTP

/// The program behind a Swift-shaped API, where requests must differ.
package enum SwiftServer: Sendable, Hashable {
    /// OpenStack Swift, and any server whose answers do not show otherwise.
    case openStack
    /// Ceph's gateway, as version 16.2 answers:
    /// - A manifest cannot be read: with `multipart-manifest=get` the answer is the empty object that carries it.
    /// - A PUT ignores `If-None-Match`. A copy ignores `If-Match` and `Range`.
    /// - A copy of a large object is a second manifest of the same segments, or an empty object with `X-Fresh-Metadata`.
    /// - A read of a large object with `If-Match` answers 412, whatever the ETag.
    /// - A listing shows the length of the manifest and the ETag of no bytes.
    /// - A POST keeps the system headers that it does not name.
    /// - ETags in a manifest are taken for true.
    /// - Listings have milliseconds, `X-Timestamp` has more.
    /// - URLs that work without a token are signed with SHA-1, and with a key of the account.
    case ceph

    /// The server that an answer about a container shows. `X-Container-Bytes-Used-Actual` and `X-Storage-Class` are Ceph's own.
    init(containerAnswer headers: HTTPHeaders) {
        let isCeph = headers["X-Container-Bytes-Used-Actual"] != nil || headers["X-Storage-Class"] != nil
        self = isCeph ? .ceph : .openStack
    }
}
