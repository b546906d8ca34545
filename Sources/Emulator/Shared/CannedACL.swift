/// The words for whole ACLs that every provider has; OSS has nothing else.
enum CannedACL: String {
    case inherited = "default"
    case privateAccess = "private"
    case publicRead = "public-read"
    case publicReadWrite = "public-read-write"

    /// The word nearest to what is stored, which may be from another dialect.
    init(_ access: AccessControl) {
        let open = Set(access.grants.filter { $0.grantee == .everyone }.map(\.permission))
        if access.isInherited {
            self = .inherited
        } else if open.contains("FULL_CONTROL") || open.isSuperset(of: ["READ", "WRITE"]) {
            self = .publicReadWrite
        } else {
            self = open.contains("READ") ? .publicRead : .privateAccess
        }
    }

    var access: AccessControl {
        let permissions: [String] =
            switch self {
            case .inherited, .privateAccess: []
            case .publicRead: ["READ"]
            case .publicReadWrite: ["READ", "WRITE"]
            }
        return AccessControl(
            grants: permissions.map { .init(grantee: .everyone, permission: $0) }, isInherited: self == .inherited)
    }
}
