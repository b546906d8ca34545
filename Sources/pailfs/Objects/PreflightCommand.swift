import ArgumentParser
import ObjectStorage

/// Sends the store the preflight request that a browser sends for a web page.
struct PreflightCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "preflight", abstract: "Checks whether a web page may use an object (CORS).")

    @OptionGroup var object: ObjectArguments
    @Option(help: "Scheme and host of the web page, such as https://www.example.com.") var origin: String
    @Option(help: "Method of the request that the page sends.") var method = "GET"
    @Option(help: ArgumentHelp("A header of that request; may be repeated.", valueName: "name"))
    var header: [String] = []

    mutating func run() throws {
        let request = PreflightRequest(origin: origin, method: method.uppercased(), headers: header)
        let (session, key) = try object.object()
        let headers = try session.answer { store async throws(ObjectStoreError) -> [PreflightHeader]? in
            do throws(ObjectStoreError) { return try await store.preflight(key, request) } catch {
                guard error.kind == .accessDenied else { throw error }
                return nil
            }
        }
        let rules = try session.answer {
            store async throws(ObjectStoreError) -> Result<[CrossOriginRule], ObjectStoreError> in
            do throws(ObjectStoreError) { return .success(try await store.crossOriginRules(for: key)) } catch {
                // The rules explain the answer, which counts without them too.
                return .failure(error)
            }
        }
        guard let headers else {
            throw CommandError(
                "the bucket's rules let no page of \(origin) send \(request.method) to \(object.url)"
                    + Self.reasons(rules, request) + "; add a CORS rule for it at the store")
        }
        for header in headers { Output.say("\(header.name): \(header.value)") }
        Output.say("rule: \(Self.match(rules, request))")
    }

    /// The rule that allows the request, in words.
    static func match(_ rules: Result<[CrossOriginRule], ObjectStoreError>, _ request: PreflightRequest) -> String {
        switch rules {
        case .failure(let error) where error.kind == .accessDenied:
            return "unknown, these credentials may not read the bucket's CORS rules"
        case .failure(let error) where error.kind == .notFound: return "none, the bucket has no CORS rules of its own"
        case .failure(let error): return "unknown, \(error.message)"
        case .success(let rules):
            guard let index = rules.firstIndex(where: { $0.mismatch(request) == nil }) else {
                return "none of the \(rules.count) that the bucket has"
            }
            let rule = rules[index]
            let headers = rule.headers.isEmpty ? "none" : rule.headers.joined(separator: " ")
            return "\(index + 1) of \(rules.count)\(name(rule)), origins \(rule.origins.joined(separator: " ")), "
                + "methods \(rule.methods.joined(separator: " ")), headers \(headers)"
        }
    }

    /// Why each rule does not allow the request; empty where the rules cannot be read.
    static func reasons(_ rules: Result<[CrossOriginRule], ObjectStoreError>, _ request: PreflightRequest) -> String {
        switch rules {
        case .failure(let error) where error.kind == .notFound: return ": it has none"
        case .failure: return ""
        case .success(let rules):
            let reasons = rules.enumerated().compactMap { index, rule in
                rule.mismatch(request).map { "rule \(index + 1)\(name(rule)) does not allow \(text($0, request))" }
            }
            return reasons.isEmpty ? "" : ": " + reasons.joined(separator: ", ")
        }
    }

    private static func name(_ rule: CrossOriginRule) -> String {
        rule.id.flatMap { $0.isEmpty ? nil : " (\($0))" } ?? ""
    }

    private static func text(_ mismatch: CrossOriginRule.Mismatch, _ request: PreflightRequest) -> String {
        switch mismatch {
        case .origin: "the origin"
        case .method: "the method \(request.method)"
        case .header(let name): "the header \(name)"
        }
    }
}
