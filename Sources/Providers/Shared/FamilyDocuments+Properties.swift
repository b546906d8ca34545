import Basics
import ObjectStorage

/// Documents of objects' properties and of buckets.
extension FamilyDocuments {
    struct Policy {
        var owner = ""
        var access = AccessControl()
    }

    /// `AccessControlPolicy`. OSS has one word in it, other stores have grants; grants that equal a canned list are returned as
    /// one.
    static func policy(_ body: [UInt8]) throws(XMLError) -> Policy {
        var policy = Policy()
        var word = ""
        var reader = XMLReader(body)
        try reader.root { reader, _ throws(XMLError) in
            try reader.elements { reader, name throws(XMLError) in
                switch name {
                case "Owner":
                    try reader.elements { reader, name throws(XMLError) in
                        if name == "ID" { policy.owner = try reader.text() }
                    }
                case "AccessControlList":
                    try reader.elements { reader, name throws(XMLError) in
                        guard name == "Grant" else { return }
                        let grant = try grant(&reader)
                        switch grant {
                        case .word(let text): word = text
                        case .grant(let grant): policy.access.grants.append(grant)
                        case nil: break
                        }
                    }
                default: break
                }
            }
        }
        policy.access.canned = word.isEmpty ? canned(policy) : word
        return policy
    }

    private enum GrantElement {
        case word(String)
        case grant(AccessControl.Grant)
    }

    private static func grant(_ reader: inout XMLReader) throws(XMLError) -> GrantElement? {
        var grantee: AccessControl.Grant.Grantee?
        var permission: String?
        let text = try reader.mixed { reader, name throws(XMLError) in
            switch name {
            case "Grantee":
                try reader.elements { reader, name throws(XMLError) in
                    switch name {
                    case "ID": grantee = .user(id: try reader.text())
                    case "URI": grantee = .group(uri: try reader.text())
                    case "EmailAddress": grantee = .email(try reader.text())
                    default: break
                    }
                }
            case "Permission": permission = try reader.text()
            default: break
            }
        }
        if let grantee, let permission { return .grant(AccessControl.Grant(grantee, permission)) }
        let word = text.split(whereSeparator: \.isWhitespace).joined()
        return word.isEmpty ? nil : .word(word)
    }

    /// The canned list that equals these grants, if there is one.
    private static func canned(_ policy: Policy) -> String? {
        let others = policy.access.grants.filter { $0.grantee != .user(id: policy.owner) }
        if others.isEmpty { return "private" }
        guard others.allSatisfy({ groupName($0) == groupName(others[0]) && groupName($0) != nil }) else { return nil }
        switch (groupName(others[0]), Set(others.map(\.permission))) {
        case ("AllUsers", ["READ"]): return "public-read"
        case ("AllUsers", ["READ", "WRITE"]): return "public-read-write"
        case ("AuthenticatedUsers", ["READ"]): return "authenticated-read"
        default: return nil
        }
    }

    private static func groupName(_ grant: AccessControl.Grant) -> String? {
        guard case .group(let uri) = grant.grantee else { return nil }
        return uri.split(separator: "/").last.map(String.init)
    }

    static func policyText(owner: String, grants: [AccessControl.Grant], xmlns: String) -> String {
        var text = "<AccessControlPolicy\(xmlns)><Owner><ID>\(XMLText.escape(owner))</ID></Owner><AccessControlList>"
        for grant in grants {
            let (type, element, value) =
                switch grant.grantee {
                case .user(let id): ("CanonicalUser", "ID", id)
                case .group(let uri): ("Group", "URI", uri)
                case .email(let address): ("AmazonCustomerByEmail", "EmailAddress", address)
                }
            text +=
                "<Grant><Grantee xmlns:xsi=\"http://www.w3.org/2001/XMLSchema-instance\" xsi:type=\"\(type)\">"
                + "<\(element)>\(XMLText.escape(value))</\(element)></Grantee>"
                + "<Permission>\(XMLText.escape(grant.permission))</Permission></Grant>"
        }
        return text + "</AccessControlList></AccessControlPolicy>"
    }

    /// Grants as headers of a new object (COS API, "PUT Object"): `x-cos-grant-read: id="100000000001"`.
    static func grantHeaders(
        _ policy: Policy, prefix: String, namesOwner: Bool
    ) -> [(name: String, value: String)] {
        var values: [String: [String]] = [:]
        for grant in policy.access.grants {
            let grantee: String
            switch grant.grantee {
            case .user(let id):
                guard namesOwner || id != policy.owner else { continue }
                // `qcs::cam::uin/<owner>:uin/<user>` in documents is the user alone in headers.
                grantee = "id=\"\(id.split(separator: "/").last.map(String.init) ?? id)\""
            case .group(let uri):
                guard namesOwner else { continue }
                grantee = "uri=\"\(uri)\""
            case .email: continue
            }
            let name = grant.permission.lowercased().split(separator: "_").joined(separator: "-")
            values[prefix + name, default: []].append(grantee)
        }
        return values.sorted { $0.key < $1.key }.map { ($0.key, $0.value.joined(separator: ",")) }
    }

    static func tags(_ body: [UInt8]) throws(XMLError) -> [String: String] {
        var tags: [String: String] = [:]
        var reader = XMLReader(body)
        try reader.root { reader, _ throws(XMLError) in
            try reader.elements { reader, name throws(XMLError) in
                guard name == "TagSet" else { return }
                try reader.elements { reader, name throws(XMLError) in
                    guard name == "Tag" else { return }
                    let tag = try fields(&reader)
                    if let key = tag["Key"] { tags[key] = tag["Value"] ?? "" }
                }
            }
        }
        return tags
    }

    /// A bucket's `CORSConfiguration`.
    static func crossOriginRules(_ body: [UInt8]) throws(XMLError) -> [CrossOriginRule] {
        var rules: [CrossOriginRule] = []
        var reader = XMLReader(body)
        try reader.root { reader, root throws(XMLError) in
            guard root == "CORSConfiguration" else { throw reader.error("<\(root)> has no CORS rules") }
            try reader.elements { reader, name throws(XMLError) in
                guard name == "CORSRule" else { return }
                var rule = CrossOriginRule()
                try reader.elements { reader, name throws(XMLError) in
                    switch name {
                    case "ID": rule.id = try reader.text()
                    case "AllowedOrigin": rule.origins.append(try reader.text())
                    case "AllowedMethod": rule.methods.append(try reader.text())
                    case "AllowedHeader": rule.headers.append(try reader.text())
                    default: break
                    }
                }
                rules.append(rule)
            }
        }
        return rules
    }

    /// OSS's `BucketStat`; nil when it has no figures.
    static func usage(_ body: [UInt8]) throws(XMLError) -> BucketUsage? {
        var found: [String: String] = [:]
        var reader = XMLReader(body)
        try reader.root { reader, _ throws(XMLError) in found = try fields(&reader) }
        guard let bytes = found["Storage"].flatMap({ Int64($0) }),
            let count = found["ObjectCount"].flatMap({ Int64($0) })
        else { return nil }
        return BucketUsage(bytes: bytes, objects: count)
    }

    /// Whether versioning is or was enabled.
    static func hasVersions(_ body: [UInt8]) throws(XMLError) -> Bool {
        var found: [String: String] = [:]
        var reader = XMLReader(body)
        try reader.root { reader, root throws(XMLError) in
            guard root == "VersioningConfiguration" else { throw reader.error("<\(root)> has no status of versioning") }
            found = try fields(&reader)
        }
        return found["Status"].map { !$0.isEmpty } ?? false
    }

    struct Buckets {
        /// Each bucket's elements by name.
        var buckets: [[String: String]] = []
        var isTruncated = false
        var next: String?
    }

    static func buckets(_ body: [UInt8]) throws(XMLError) -> Buckets {
        var answer = Buckets()
        var reader = XMLReader(body)
        try reader.root { reader, _ throws(XMLError) in
            try reader.elements { reader, name throws(XMLError) in
                switch name {
                case "IsTruncated": answer.isTruncated = try isTrue(&reader)
                case "NextMarker", "ContinuationToken": answer.next = try reader.text()
                case "Buckets":
                    try reader.elements { reader, name throws(XMLError) in
                        if name == "Bucket" { answer.buckets.append(try fields(&reader)) }
                    }
                default: break
                }
            }
        }
        return answer
    }

    /// The children that contain text, by name.
    private static func fields(_ reader: inout XMLReader) throws(XMLError) -> [String: String] {
        var fields: [String: String] = [:]
        try reader.elements { reader, name throws(XMLError) in
            fields[name] = try reader.mixed { _, _ throws(XMLError) in }
        }
        return fields
    }
}
