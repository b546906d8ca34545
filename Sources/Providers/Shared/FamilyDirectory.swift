package import Basics
package import HTTP
package import ObjectStorage

/// The buckets of an account at a store of the family (ListBuckets of Amazon S3 and OSS, GET Service of COS).
///
/// Has no state but the service. Each page is one request.
package struct FamilyDirectory: BucketDirectory {
    private let service: FamilyStore

    /// `settings` are those of any bucket; its name is not used.
    package init(
        _ settings: FamilyStore.Settings, credentials: any CredentialsProvider, engine: HTTPEngine,
        time: any TimeSource
    ) throws(ObjectStoreError) {
        var settings = settings
        (settings.bucket, settings.addressing, settings.customerKey) = (nil, nil, nil)
        service = try FamilyStore(settings, credentials: credentials, engine: engine, time: time)
    }

    package func buckets() async throws(ObjectStoreError) -> [BucketEntry] {
        var entries: [BucketEntry] = []
        var next: String?
        while true {
            var call = FamilyStore.Call(.listBuckets, .get)
            call.collectLimit = 16 << 20
            let paging = service.profile.bucketPaging
            if let limit = paging.limit { call.query.append(QueryItem("max-keys", String(limit))) }
            if let next { call.query.append(QueryItem(paging.name, next)) }
            let response = try await service.send(call)
            let page = try service.read(call, response) { body throws(XMLError) in try FamilyDocuments.buckets(body) }
            entries += page.buckets.compactMap(entry)
            // S3 has no element for whether more follow: the token shows it.
            guard page.isTruncated || page.next != nil, let marker = page.next, !marker.isEmpty else { break }
            guard marker != next else {
                throw service.malformed(call, response, "the list of buckets does not advance")
            }
            next = marker
        }
        return entries.sorted { ByteString($0.name) < ByteString($1.name) }
    }

    private func entry(_ fields: [String: String]) -> BucketEntry? {
        guard let name = fields["Name"], !name.isEmpty else { return nil }
        let profile = service.profile
        var region = fields["Region"] ?? fields["BucketRegion"] ?? fields["Location"]
        if let text = region, text.hasPrefix(profile.locationPrefix) {
            region = String(text.dropFirst(profile.locationPrefix.count))
        }
        region = region.flatMap { FamilyEndpoint.isRegion($0) ? $0 : nil }
        // The listing has the provider's public hosts. A mount with another endpoint continues to use that one.
        let host = service.settings.endpoint.map { FamilyEndpoint.host(of: $0) }
        let endpoint: String? =
            if let host, !profile.endpoints.owns(host) {
                nil
            } else if let host, host.range(of: "-internal") != nil {
                fields["IntranetEndpoint"]
            } else {
                fields["ExtranetEndpoint"] ?? region.map { profile.endpoints.host(region: $0) }
            }
        let isOwn = endpoint.map { profile.endpoints.owns(FamilyEndpoint.host(of: $0)) } ?? false
        return BucketEntry(
            name: name, created: fields["CreationDate"].flatMap { Timestamp(iso8601: $0) }, region: region,
            endpoint: isOwn ? endpoint : nil)
    }
}
