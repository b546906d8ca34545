import Basics

extension ServerRequest {
    /// The headers whose names begin with `prefix`, in small letters and without it; one that was sent several times has
    /// its values joined by commas.
    func fields(below prefix: String) -> [Field] {
        var fields: [Field] = []
        for (name, value) in headers {
            let name = name.lowercased()
            guard name.hasPrefix(prefix) else { continue }
            let short = String(name.dropFirst(prefix.count))
            if let index = fields.firstIndex(where: { $0.name == short }) {
                fields[index] = Field(short, "\(fields[index].value),\(value)")
            } else {
                fields.append(Field(short, value))
            }
        }
        return fields
    }

    private static let overrides = [
        "response-content-type": "Content-Type", "response-content-language": "Content-Language",
        "response-expires": "Expires", "response-cache-control": "Cache-Control",
        "response-content-disposition": "Content-Disposition", "response-content-encoding": "Content-Encoding",
    ]

    /// `headers` of an answer with what the `response-*` parameters put in their place.
    func overriding(_ headers: [Field]) -> [Field] {
        var headers = headers
        for item in query {
            guard let name = Self.overrides[item.name] else { continue }
            headers.removeAll { $0.name == name }
            headers.append(Field(name, item.value.description))
        }
        return headers
    }
}

extension ObjectDescription {
    /// The stored headers as answers spell them: `Content-Type`; a provider's own stay as they are.
    var capitalizedHeaders: [Field] {
        headers.map { header in
            guard !header.name.hasPrefix("x-") else { return header }
            let words = header.name.split(separator: "-").map { $0.prefix(1).uppercased() + $0.dropFirst() }
            return Field(words.joined(separator: "-"), header.value)
        }
    }
}

extension Restoration {
    /// Whether the restored copy can be read at `now`.
    func isThere(_ now: Timestamp) -> Bool { ready <= now && expires.map { $0 > now } ?? true }

    /// What `x-amz-restore` and its kin say at `now`; nil when there is nothing to say any more.
    func header(_ now: Timestamp) -> String? {
        guard ready <= now else { return "ongoing-request=\"true\"" }
        guard let expires, expires > now else { return nil }
        return "ongoing-request=\"false\", expiry-date=\"\(expires.httpDate)\""
    }
}
