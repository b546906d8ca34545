import Basics

/// The rules of a bucket for pages of other origins, as every provider writes them, and the answers browsers get.
enum CORSAnswers {
    private static let methods: Set = ["GET", "PUT", "HEAD", "POST", "DELETE"]
    private static let mostRules = 100

    /// From `CORSConfiguration/CORSRule`; nil when the document is another or a rule allows nothing.
    static func read(document: [UInt8]) -> [CORSRule]? {
        guard let root = XMLReader.parse(document), root.name == "CORSConfiguration" else { return nil }
        var rules: [CORSRule] = []
        for element in root.all("CORSRule") {
            func texts(_ name: String) -> [String] { element.all(name).map(\.text.description) }
            var rule = CORSRule()
            rule.id = element.text("ID") ?? ""
            (rule.origins, rule.methods) = (texts("AllowedOrigin"), texts("AllowedMethod"))
            (rule.headers, rule.exposed) = (texts("AllowedHeader"), texts("ExposeHeader"))
            if let age = element.text("MaxAgeSeconds") {
                guard let seconds = Int(age), seconds >= 0 else { return nil }
                rule.maxAge = seconds
            }
            let hasStars = (rule.origins + rule.headers).contains { $0.filter { $0 == "*" }.count > 1 }
            guard !rule.origins.isEmpty, !rule.methods.isEmpty, methods.isSuperset(of: rule.methods), !hasStars else {
                return nil
            }
            rules.append(rule)
        }
        return (1...mostRules).contains(rules.count) ? rules : nil
    }

    /// The children of `CORSConfiguration`.
    static func write(_ rules: [CORSRule], _ xml: inout XMLWriter) {
        for rule in rules {
            xml.element("CORSRule") { xml in
                if !rule.id.isEmpty { xml.element("ID", rule.id) }
                for origin in rule.origins { xml.element("AllowedOrigin", origin) }
                for method in rule.methods { xml.element("AllowedMethod", method) }
                for header in rule.headers { xml.element("AllowedHeader", header) }
                for header in rule.exposed { xml.element("ExposeHeader", header) }
                if let age = rule.maxAge { xml.element("MaxAgeSeconds", age) }
            }
        }
    }

    /// The answer to a preflight; nil when no rule allows what it asks for, or it does not ask.
    static func preflight(_ request: ServerRequest, _ rules: [CORSRule]) -> ServerResponse? {
        guard let origin = request.header("origin"), let method = request.header("access-control-request-method") else {
            return nil
        }
        let asked = (request.header("access-control-request-headers") ?? "").split(separator: ",")
            .map { $0.filter { $0 != " " } }
        guard let rule = rules.first(where: { $0.allows(origin: origin, method: method, headers: asked) }) else {
            return nil
        }
        var fields =
            origins(rule, origin) + [Field("Access-Control-Allow-Methods", rule.methods.joined(separator: ","))]
        if !asked.isEmpty { fields.append(Field("Access-Control-Allow-Headers", asked.joined(separator: ","))) }
        if let age = rule.maxAge { fields.append(Field("Access-Control-Max-Age", String(age))) }
        return ServerResponse(status: 200, headers: fields)
    }

    /// What an answer to a page of another origin says besides.
    static func headers(_ request: ServerRequest, _ rules: [CORSRule]) -> [Field] {
        guard let origin = request.header("origin"),
            let rule = rules.first(where: { $0.allows(origin: origin, method: request.method) })
        else { return [] }
        return origins(rule, origin)
    }

    private static func origins(_ rule: CORSRule, _ origin: String) -> [Field] {
        var fields = [
            Field("Access-Control-Allow-Origin", rule.origins.contains("*") ? "*" : origin), Field("Vary", "Origin"),
        ]
        if !rule.exposed.isEmpty {
            fields.append(Field("Access-Control-Expose-Headers", rule.exposed.joined(separator: ",")))
        }
        return fields
    }
}
