import Basics

/// Access control lists of objects and buckets (COS API, "PUT Object acl").
extension COSDialect {
    /// How COS calls the groups that the storage knows by S3's names.
    private static let groups: [(cos: String, stored: AccessControl.Grant.Grantee)] = [
        ("http://cam.qcloud.com/groups/global/AllUsers", .everyone),
        ("http://cam.qcloud.com/groups/global/AuthenticatedUsers", .anyUser),
    ]
    private static let permissions: Set<String> = ["READ", "WRITE", "READ_ACP", "WRITE_ACP", "FULL_CONTROL"]

    private static func group(_ uri: String) -> AccessControl.Grant.Grantee {
        groups.first { $0.cos == uri }?.stored ?? .group(uri: uri)
    }

    func getObjectACL(_ call: COSCall) throws(COSError) -> ServerResponse {
        let access = try object(call).1.record.description.access
        let answer = policy(access)
        return access.isInherited ? answer.adding([Field("x-cos-acl", "default")]) : answer
    }

    func putObjectACL(_ call: COSCall) async throws(COSError) -> ServerResponse {
        let (bucket, object) = try object(call)
        let access = try await access(call)
        try change(object, in: bucket) { $0.description.access = access }
        return ServerResponse(status: 200)
    }

    func getBucketACL(_ call: COSCall) throws(COSError) -> ServerResponse { policy(try bucket(call).record.access) }

    func putBucketACL(_ call: COSCall) async throws(COSError) -> ServerResponse {
        let bucket = try bucket(call)
        let access = try await access(call)
        guard !access.isInherited else { throw COSError.invalidArgument("A bucket's ACL can not be 'default'.") }
        try COSError.storing { () throws(StorageError) in try bucket.setAccess(access) }
        return ServerResponse(status: 200)
    }

    /// What a request to change an ACL wants: from its headers, or else from its body.
    private func access(_ call: COSCall) async throws(COSError) -> AccessControl {
        let body = try await call.payload.collect()
        if let access = try Self.access(fromHeaders: call.request) { return access }
        guard let list = XMLReader.parse(body)?["AccessControlList"] else {
            throw COSError(
                400, "MissingSecurityHeader", "Your request was missing x-cos-acl, x-cos-grant-* or a policy.")
        }
        let malformed = COSError(400, "MalformedACLError", COSError.malformedXML.message)
        var access = AccessControl()
        for grant in list.all("Grant") {
            guard let grantee = grant["Grantee"], let permission = grant.text("Permission"),
                Self.permissions.contains(permission)
            else { throw malformed }
            if let uri = grantee.text("URI") {
                access.grants.append(AccessControl.Grant(grantee: Self.group(uri), permission: permission))
            } else if let id = grantee.text("ID") {
                // The owner's own full control goes without saying.
                if id == Self.ownerID, permission == "FULL_CONTROL" { continue }
                access.grants.append(AccessControl.Grant(grantee: .user(id: id), permission: permission))
            } else {
                throw malformed
            }
        }
        return access
    }

    /// From `x-cos-acl` or `x-cos-grant-*`; nil without either.
    static func access(fromHeaders request: ServerRequest) throws(COSError) -> AccessControl? {
        var access: AccessControl?
        if let canned = request.header("x-cos-acl") { access = try self.access(canned: canned) }
        for (header, permission) in [
            ("x-cos-grant-read", "READ"), ("x-cos-grant-write", "WRITE"), ("x-cos-grant-read-acp", "READ_ACP"),
            ("x-cos-grant-write-acp", "WRITE_ACP"), ("x-cos-grant-full-control", "FULL_CONTROL"),
        ] {
            guard let value = request.header(header) else { continue }
            var grants = access?.grants ?? []
            for item in value.split(separator: ",") {
                let halves = item.split(separator: "=", maxSplits: 1).map { $0.filter { $0 != "\"" && $0 != " " } }
                guard halves.count == 2, halves[0].lowercased() == "id", !halves[1].isEmpty else {
                    throw COSError.invalidArgument("\(header) must be id=\"<uin>\", with commas between several.")
                }
                grants.append(AccessControl.Grant(grantee: .user(id: id(halves[1])), permission: permission))
            }
            access = AccessControl(grants: grants)
        }
        return access
    }

    /// A bare number is the account itself.
    private static func id(_ text: String) -> String {
        text.allSatisfy { $0.isASCII && $0.isNumber } ? "qcs::cam::uin/\(text):uin/\(text)" : text
    }

    private static func access(canned: String) throws(COSError) -> AccessControl {
        func granting(_ grantee: AccessControl.Grant.Grantee, _ permissions: String...) -> AccessControl {
            AccessControl(grants: permissions.map { .init(grantee: grantee, permission: $0) })
        }
        switch canned {
        case "default": return AccessControl(isInherited: true)
        case "private", "bucket-owner-read", "bucket-owner-full-control": return AccessControl()
        case "public-read": return granting(.everyone, "READ")
        case "public-read-write": return granting(.everyone, "READ", "WRITE")
        case "authenticated-read": return granting(.anyUser, "READ")
        default: throw COSError.invalidArgument("The x-cos-acl '\(canned)' does not exist.")
        }
    }

    private func policy(_ access: AccessControl) -> ServerResponse {
        let schema = "xmlns:xsi=\"http://www.w3.org/2001/XMLSchema-instance\" xsi:type="
        let owner = AccessControl.Grant(grantee: .user(id: Self.ownerID), permission: "FULL_CONTROL")
        return xml("AccessControlPolicy") { xml in
            Self.owner(&xml)
            xml.element("AccessControlList") { xml in
                for grant in [owner] + access.grants {
                    xml.element("Grant") { xml in
                        switch grant.grantee {
                        case .user(let id), .email(let id):
                            xml.element("Grantee", attributes: "\(schema)\"CanonicalUser\"") { xml in
                                xml.element("ID", id)
                                xml.element("DisplayName", id)
                            }
                        case .group(let uri):
                            let known = Self.groups.first { $0.stored == grant.grantee }?.cos
                            xml.element("Grantee", attributes: "\(schema)\"Group\"") { $0.element("URI", known ?? uri) }
                        }
                        xml.element("Permission", grant.permission)
                    }
                }
            }
        }
    }
}
