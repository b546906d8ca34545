import Basics
import Digests
import Foundation
import Synchronization
import TestSupport

/// The part of Ceph's Swift API that differs from OpenStack's, as version 16.2 answers: objects by `container/name`.
final class CephGateway: Sendable {
    struct Object {
        var headers: [String: String]
        var body: [UInt8]
        /// The paths of the segments, of a static large object.
        var segments: [String]?

        /// What belongs to the object's bytes, and not to what a client said of them.
        func header(_ name: String) -> String? { headers[name.lowercased()] }
    }

    private let all = Mutex<[String: Object]>([:])

    var paths: [String] { all.withLock { $0.keys.sorted() } }

    func object(_ path: String) -> Object? { all.withLock { $0[path] } }

    /// What another client does.
    func change(_ act: (inout [String: Object]) -> Void) { all.withLock { act(&$0) } }

    func answer(_ request: LocalRequest) -> LocalAnswer {
        let path = String(request.path.dropFirst("/v1/AUTH_test/".count)).removingPercentEncoding ?? ""
        guard path.contains("/") else { return container(path, request) }
        return all.withLock { all in
            switch request.method {
            case "PUT": Self.put(path, request, &all)
            case "POST": Self.post(path, request, &all)
            case "DELETE": LocalAnswer(all.removeValue(forKey: path) == nil ? 404 : 204)
            default: Self.read(path, request, all)
            }
        }
    }

    private static func stored(_ request: LocalRequest) -> [String: String] {
        let names = [
            "content-type", "cache-control", "content-disposition", "content-encoding", "content-language", "expires",
            "x-delete-at",
        ]
        var headers: [String: String] = [:]
        for (name, value) in request.headers.map({ ($0.name.lowercased(), $0.value) }) {
            if names.contains(name) || name.hasPrefix("x-object-meta-") { headers[name] = value }
        }
        return headers
    }

    /// `If-None-Match`, and `If-Match` and `Range` of a copy, mean nothing.
    private static func put(_ path: String, _ request: LocalRequest, _ all: inout [String: Object]) -> LocalAnswer {
        var object = Object(headers: stored(request), body: request.body)
        if let source = request["X-Copy-From"] {
            guard let found = all[String(source.removingPercentEncoding?.dropFirst() ?? "")] else {
                return LocalAnswer(404)
            }
            object.body = found.body
            // The manifest is among the metadata.
            if request["X-Fresh-Metadata"] == nil {
                object.headers.merge(found.headers) { own, _ in own }
                object.segments = found.segments
            }
        }
        var etag = Hex.encode(MD5.of(object.body))
        if request.query.hasPrefix("multipart-manifest=put") {
            let elements = (try? JSONSerialization.jsonObject(with: Data(request.body)) as? [[String: Any]]) ?? []
            let segments = elements.compactMap { ($0["path"] as? String).map { String($0.dropFirst()) } }
            guard segments.allSatisfy({ all[$0] != nil }) else { return LocalAnswer(404, body: "NoSuchKey") }
            // Taken as the client says, but for the lengths.
            etag = "\"\(Hex.encode(MD5.of(elements.map { $0["etag"] as? String ?? "" }.joined())))\""
            (object.segments, object.body) = (segments, [])
        }
        all[path] = object
        return LocalAnswer(201, [("etag", etag)])
    }

    /// Metadata is replaced; a system header stays unless it is named.
    private static func post(_ path: String, _ request: LocalRequest, _ all: inout [String: Object]) -> LocalAnswer {
        guard var object = all[path] else { return LocalAnswer(404) }
        object.headers = object.headers.filter { !$0.key.hasPrefix("x-object-meta-") }
        object.headers.merge(stored(request)) { _, new in new }
        all[path] = object
        return LocalAnswer(202)
    }

    /// A condition is compared with the object that carries the manifest, and `multipart-manifest=get` answers that object.
    private static func read(_ path: String, _ request: LocalRequest, _ all: [String: Object]) -> LocalAnswer {
        guard let object = all[path] else { return LocalAnswer(404) }
        let own = Hex.encode(MD5.of(object.body))
        if let wanted = request["If-Match"], wanted.replacing("\"", with: "") != own { return LocalAnswer(412) }
        if request["If-None-Match"]?.replacing("\"", with: "") == own { return LocalAnswer(304) }
        var headers = object.headers.map { ($0.key, $0.value) } + [("X-Timestamp", "1700000000.36050")]
        guard let segments = object.segments, !request.query.contains("multipart-manifest=get") else {
            return LocalAnswer(200, headers + [("etag", own)], bytes: object.body)
        }
        let bodies = segments.compactMap { all[$0]?.body }
        guard bodies.count == segments.count else { return LocalAnswer(404, body: "NoSuchKey") }
        let etag = Hex.encode(MD5.of(bodies.map { Hex.encode(MD5.of($0)) }.joined()))
        headers += [
            ("ETag", "\"\(etag)\""), ("X-Static-Large-Object", "True"), ("X-Object-Meta-Static-Large-Object", "True"),
        ]
        return LocalAnswer(200, headers, bytes: bodies.flatMap(\.self))
    }

    private func bulk(_ request: LocalRequest) -> LocalAnswer {
        for line in String(decoding: request.body, as: UTF8.self).split(separator: "\n") {
            all.withLock { _ = $0.removeValue(forKey: line.removingPercentEncoding ?? "") }
        }
        return LocalAnswer(200, body: "{\"Response Status\": \"200 OK\", \"Response Body\": \"\", \"Errors\": []}")
    }

    private func container(_ name: String, _ request: LocalRequest) -> LocalAnswer {
        let headers = [("X-Container-Bytes-Used-Actual", "4096"), ("X-Storage-Class", "STANDARD")]
        switch request.method {
        case "PUT": return LocalAnswer(201)
        case "HEAD": return LocalAnswer(204, headers)
        case "POST": return bulk(request)
        default: break
        }
        var items: [String: String] = [:]
        for item in request.query.split(separator: "&") {
            let halves = item.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false).map(String.init)
            items[halves[0]] = halves.last?.removingPercentEncoding
        }
        let entries = all.withLock { all in
            all.sorted { $0.key < $1.key }.compactMap { path, object -> [String: Any]? in
                guard path.hasPrefix(name + "/") else { return nil }
                let entry = String(path.dropFirst(name.count + 1))
                guard entry.hasPrefix(items["prefix"] ?? ""), entry > items["marker"] ?? "" else { return nil }
                // Of a large object, what its manifest has.
                return [
                    "name": entry, "bytes": object.segments.map { $0.count * 140 } ?? object.body.count,
                    "hash": Hex.encode(MD5.of(object.body)), "last_modified": "2023-11-14T22:13:20.360Z",
                ]
            }
        }
        let text = try? JSONSerialization.data(withJSONObject: entries)
        return LocalAnswer(200, headers, bytes: Array(text ?? Data()))
    }
}
