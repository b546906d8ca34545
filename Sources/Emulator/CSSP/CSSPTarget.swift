import Basics

/// The operations of CSSP that are served, by the names of its SDKs where they have one.
enum CSSPOperation: String, Sendable {
    case bulkDelete
    case listContainers
    case headContainer, listObjects, createContainer, setContainerMetadata, deleteContainer
    case headObject, getObject, putObject, copyObject, setObjectMetadata, deleteObject
    case methodNotAllowed
}

/// Where a request points and what it asks for: `/container` or `/container/object`. The account is in the host and not
/// told apart.
struct CSSPTarget {
    var operation = CSSPOperation.methodNotAllowed
    var container = ""
    var key = ByteString("")
    /// Names are UTF-8 without NUL.
    var isValid = true

    init(_ request: ServerRequest) {
        let path = Substring(request.path).dropFirst()
        let mark = path.utf8.firstIndex(of: UInt8(ascii: "/"))
        let first = PercentEncoding.decode(mark.map { path[..<$0] } ?? path)
        let second = PercentEncoding.decode(mark.map { path[path.utf8.index(after: $0)...] } ?? "")
        guard let first, let second, let name = String(validating: first, as: UTF8.self), !name.contains("/"),
            String(validating: second, as: UTF8.self) != nil, !second.contains(0)
        else {
            isValid = false
            return
        }
        (container, key) = (name, ByteString(second))
        operation = Self.operation(request, hasContainer: !name.isEmpty, hasKey: !second.isEmpty)
    }

    private static func operation(_ request: ServerRequest, hasContainer: Bool, hasKey: Bool) -> CSSPOperation {
        if request.has("bulk-delete"), ["POST", "DELETE"].contains(request.method) { return .bulkDelete }
        switch (request.method, hasContainer, hasKey) {
        case ("GET", false, _), ("HEAD", false, _): return .listContainers
        case ("GET", true, false): return .listObjects
        case ("HEAD", true, false): return .headContainer
        case ("PUT", true, false): return .createContainer
        case ("POST", true, false): return .setContainerMetadata
        case ("DELETE", true, false): return .deleteContainer
        case ("GET", true, true): return .getObject
        case ("HEAD", true, true): return .headObject
        case ("PUT", true, true): return request.hasHeader("x-copy-from") ? .copyObject : .putObject
        case ("COPY", true, true): return .copyObject
        case ("POST", true, true): return .setObjectMetadata
        case ("DELETE", true, true): return .deleteObject
        default: return .methodNotAllowed
        }
    }
}
