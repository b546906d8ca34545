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
        guard let headers else {
            throw CommandError(
                "the bucket's rules let no page of \(origin) send \(request.method) to \(object.url); "
                    + "add a CORS rule for it at the store")
        }
        for header in headers { Output.say("\(header.name): \(header.value)") }
    }
}
