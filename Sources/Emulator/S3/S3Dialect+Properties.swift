import Basics

/// Tags, access control, and restoring what is archived.
extension S3Dialect {
    func objectTagging(_ call: S3Call) throws(S3Error) -> ServerResponse {
        let tags = try object(call).1.record.description.tags
        return xml("Tagging") { Tagging.write(tags, &$0) }
    }

    func objectACL(_ call: S3Call) throws(S3Error) -> ServerResponse {
        policy(try object(call).1.record.description.access)
    }

    func setObjectACL(_ call: S3Call) async throws(S3Error) -> ServerResponse {
        let (bucket, object) = try object(call)
        let access = try await access(call)
        try change(object, in: bucket) { $0.description.access = access }
        return ServerResponse(status: 200)
    }

    func bucketACL(_ call: S3Call) throws(S3Error) -> ServerResponse { policy(try bucket(call).record.access) }

    func setBucketACL(_ call: S3Call) async throws(S3Error) -> ServerResponse {
        let bucket = try bucket(call)
        let access = try await access(call)
        try S3Error.storing { () throws(StorageError) in try bucket.setAccess(access) }
        return ServerResponse(status: 200)
    }

    private static let permissions: Set<String> = ["FULL_CONTROL", "READ", "READ_ACP", "WRITE", "WRITE_ACP"]

    /// What a request to change an ACL wants: from its headers, or else from its body.
    private func access(_ call: S3Call) async throws(S3Error) -> AccessControl {
        let body = try await call.payload.collect(limit: Self.largestDocument)
        if let access = try Self.access(fromHeaders: call.request) { return access }
        guard let list = XMLReader.parse(body)?["AccessControlList"] else {
            throw S3Error(
                400, "MissingSecurityHeader", "Your request was missing a required header",
                elements: [Field("MissingHeaderName", "x-amz-acl")])
        }
        var access = AccessControl()
        for grant in list.all("Grant") {
            guard let grantee = grant["Grantee"], let permission = grant.text("Permission"),
                Self.permissions.contains(permission)
            else { throw S3Error(400, "MalformedACLError", S3Error.malformedXML.message) }
            let who: AccessControl.Grant.Grantee
            if let uri = grantee.text("URI") {
                who = .group(uri: uri)
            } else if let id = grantee.text("ID") {
                // The owner's own full control goes without saying.
                if id == Self.ownerID, permission == "FULL_CONTROL" { continue }
                who = .user(id: id)
            } else if let address = grantee.text("EmailAddress") {
                who = .email(address)
            } else {
                throw S3Error(400, "MalformedACLError", S3Error.malformedXML.message)
            }
            access.grants.append(AccessControl.Grant(grantee: who, permission: permission))
        }
        return access
    }

    /// From `x-amz-acl` or `x-amz-grant-*`; nil without either.
    static func access(fromHeaders request: ServerRequest) throws(S3Error) -> AccessControl? {
        if let canned = request.header("x-amz-acl") {
            func granting(_ grantee: AccessControl.Grant.Grantee, _ permissions: String...) -> AccessControl {
                AccessControl(grants: permissions.map { .init(grantee: grantee, permission: $0) })
            }
            switch canned {
            case "private", "bucket-owner-read", "bucket-owner-full-control", "aws-exec-read": return AccessControl()
            case "public-read": return granting(.everyone, "READ")
            case "public-read-write": return granting(.everyone, "READ", "WRITE")
            case "authenticated-read": return granting(.anyUser, "READ")
            default: throw S3Error.invalidArgument("Invalid x-amz-acl: \(canned)")
            }
        }
        var access: AccessControl?
        for (header, permission) in [
            ("x-amz-grant-read", "READ"), ("x-amz-grant-read-acp", "READ_ACP"), ("x-amz-grant-write", "WRITE"),
            ("x-amz-grant-write-acp", "WRITE_ACP"), ("x-amz-grant-full-control", "FULL_CONTROL"),
        ] {
            guard let value = request.header(header) else { continue }
            var grants = access?.grants ?? []
            for item in value.split(separator: ",") {
                let halves = item.split(separator: "=", maxSplits: 1).map { $0.filter { $0 != "\"" && $0 != " " } }
                guard halves.count == 2 else { throw S3Error.invalidArgument("Argument format not recognized") }
                let grantee: AccessControl.Grant.Grantee
                switch halves[0].lowercased() {
                case "id": grantee = .user(id: halves[1])
                case "uri": grantee = .group(uri: halves[1])
                case "emailaddress": grantee = .email(halves[1])
                default: throw S3Error.invalidArgument("Argument format not recognized")
                }
                grants.append(AccessControl.Grant(grantee: grantee, permission: permission))
            }
            access = AccessControl(grants: grants)
        }
        return access
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
                        case .user(let id):
                            xml.element("Grantee", attributes: "\(schema)\"CanonicalUser\"") { xml in
                                xml.element("ID", id)
                                if id == Self.ownerID { xml.element("DisplayName", "pailstore") }
                            }
                        case .group(let uri):
                            xml.element("Grantee", attributes: "\(schema)\"Group\"") { $0.element("URI", uri) }
                        case .email(let address):
                            xml.element("Grantee", attributes: "\(schema)\"AmazonCustomerByEmail\"") {
                                $0.element("EmailAddress", address)
                            }
                        }
                        xml.element("Permission", grant.permission)
                    }
                }
            }
        }
    }

    /// A century; more days than any restored copy is kept for.
    private static let mostRestoreDays: Int64 = 36_500

    func restoreObject(_ call: S3Call) async throws(S3Error) -> ServerResponse {
        let (bucket, object) = try object(call)
        let body = try await call.payload.collect(limit: Self.largestDocument)
        guard let root = XMLReader.parse(body), root.name == "RestoreRequest" else { throw S3Error.malformedXML }
        let storageClass = object.record.description.storageClass
        guard storageClass.isFrozen else {
            throw S3Error(403, "InvalidObjectState", "Restore is not allowed for the object's current storage class")
        }
        guard let days = root.text("Days").flatMap({ Int64($0) }), (1...Self.mostRestoreDays).contains(days) else {
            throw S3Error.malformedXML
        }
        let tier = root["GlacierJobParameters"]?.text("Tier") ?? root.text("Tier") ?? "Standard"
        guard ["Standard", "Bulk", "Expedited"].contains(tier), tier != "Expedited" || storageClass == .archive else {
            throw S3Error.invalidArgument("The retrieval tier is not valid for this storage class")
        }
        let now = options.time.now()
        if let current = object.record.restoration, current.ready > now {
            throw S3Error(409, "RestoreAlreadyInProgress", "Object restore is already in progress")
        }
        let isThere = object.record.restoration.map { $0.expires.map { $0 > now } ?? true } ?? false
        let ready = isThere ? now : now + options.restoreDelay
        // Copies last until the midnight after the days asked for.
        let end = (ready.seconds / 86_400 + days + 1) * 86_400
        try change(object, in: bucket) {
            $0.restoration = Restoration(ready: ready, expires: Timestamp(seconds: end))
        }
        return ServerResponse(status: isThere ? 200 : 202)
    }
}
