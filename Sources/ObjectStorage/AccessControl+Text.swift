/// The text form of access control lists, for users.
extension AccessControl {
    /// The canned list's name where there is one, else a line for each grant.
    package var text: String { canned ?? grants.map(\.text).joined(separator: "\n") }

    /// Parses `text`; nil when it is neither one name nor grants.
    package init?(text: String) {
        let lines = text.split(separator: "\n").map(String.init)
        guard lines.count != 1 || text.contains("=") else {
            guard StoredHeader.canCarry(lines[0]), !lines[0].contains(where: { " :".contains($0) }) else { return nil }
            self.init(canned: lines[0])
            return
        }
        let grants = lines.compactMap { Grant(text: $0) }
        guard !grants.isEmpty, grants.count == lines.count else { return nil }
        self.init(grants: grants)
    }
}

extension AccessControl.Grant {
    /// `user:ID=READ`, `group:URI=READ` or `email:ADDRESS=READ`.
    package var text: String {
        switch grantee {
        case .user(let id): "user:\(id)=\(permission)"
        case .group(let uri): "group:\(uri)=\(permission)"
        case .email(let address): "email:\(address)=\(permission)"
        }
    }

    /// Parses `text`. IDs and URIs may hold `=` and `:`; permissions do not.
    package init?(text: String) {
        guard let equals = text.lastIndex(of: "="), let colon = text.firstIndex(of: ":"), colon < equals else {
            return nil
        }
        let name = String(text[text.index(after: colon)..<equals])
        let permission = String(text[text.index(after: equals)...])
        guard !name.isEmpty, !permission.isEmpty else { return nil }
        switch text[..<colon] {
        case "user": self.init(.user(id: name), permission)
        case "group": self.init(.group(uri: name), permission)
        case "email": self.init(.email(name), permission)
        default: return nil
        }
    }
}
